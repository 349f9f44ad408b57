"""Where a deployment publishes what it made, for others that use its cluster."""

from enum import StrEnum

from hyperpod_dpd.spec import Deployment


class Parameter(StrEnum):
    """An output of the stacks, as the last part of an SSM parameter's path."""

    VPC_ID = "vpc-id"
    GPU_SUBNET_ID = "gpu-subnet-id"
    SYSTEM_SUBNET_IDS = "system-subnet-ids"
    EFA_SECURITY_GROUP_ID = "efa-security-group-id"
    EKS_NAME = "eks-name"
    EKS_ARN = "eks-arn"
    EKS_SECURITY_GROUP_ID = "eks-security-group-id"
    OIDC_PROVIDER_ARN = "oidc-provider-arn"
    HYPERPOD_NAME = "hyperpod-name"
    HYPERPOD_ARN = "hyperpod-arn"
    METRICS_WORKSPACE_ARN = "metrics-workspace-arn"
    METRICS_WORKSPACE_URL = "metrics-workspace-url"
    S3_DRIVER_ROLE_NAME = "s3-driver-role-name"


def parameter_prefix(deployment: Deployment) -> str:
    """Return the path below which the owner of the deployment's cluster publishes its outputs."""
    existing = deployment.cluster.existing
    if existing and existing.parameter_prefix:
        return existing.parameter_prefix.rstrip("/")
    return f"/hyperpod-dpd/{deployment.name}"


def parameter_name(deployment: Deployment, parameter: Parameter) -> str:
    """Return the full path of `parameter`."""
    return f"{parameter_prefix(deployment)}/{parameter}"
