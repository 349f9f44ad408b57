"""The EKS control plane, with everything set that its construct gets wrong for HyperPod."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_kms as kms
from constructs import Construct

from hyperpod_dpd.catalog.eks import kubernetes_version
from hyperpod_dpd.derive.addresses import SERVICE_CIDR
from hyperpod_dpd.derive.kept_names import control_plane_log
from hyperpod_dpd.network import ClusterNetwork
from hyperpod_dpd.security.logs import log_group, logs_key
from hyperpod_dpd.spec import Cluster


def control_plane(
    scope: Construct,
    *,
    spec: Cluster,
    network: ClusterNetwork,
    name: str,
    log_retention_days: int,
    removal_policy: cdk.RemovalPolicy,
) -> eks.Cluster:
    """Return the cluster: native resource, authentication `API`, all logs, encrypted secrets, no capacity of its own.

    Raises:
        UnknownCatalogEntryError: HyperPod does not support the Kubernetes version.
    """
    # EKS would create this group itself, without a key and for ever
    logs = log_group(
        scope,
        "ControlPlaneLogs",
        key=logs_key(scope, "LogsKey", removal_policy=removal_policy),
        retention_days=log_retention_days,
        removal_policy=removal_policy,
        name=control_plane_log(name),
    )
    secrets = kms.Key(
        scope,
        "SecretsKey",
        description=f"Kubernetes secrets of {name}",
        enable_key_rotation=True,
        removal_policy=removal_policy,
    )
    cluster = eks.Cluster(
        scope,
        "Eks",
        # explicit, so that CloudFormation refuses a change that would replace the cluster
        cluster_name=name,
        version=eks.KubernetesVersion.of(kubernetes_version(spec.kubernetes_version).version),
        vpc=network.vpc,
        # the default would hand public subnets to EKS too
        vpc_subnets=[ec2.SubnetSelection(subnets=list(network.cluster_subnets))],
        # nodes reach the private endpoint through this group's rule to itself
        security_group=network.efa_security_group,
        endpoint_access=_endpoint_access(spec),
        service_ipv4_cidr=str(SERVICE_CIDR),
        # the default is Auto Mode, whose nodes HyperPod does not know
        default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
        default_capacity=0,
        # the creator is CloudFormation's role; people get access entries
        bootstrap_cluster_creator_admin_permissions=False,
        cluster_logging=list(eks.ClusterLoggingTypes),
        secrets_encryption_key=secrets,
        removal_policy=removal_policy,
    )
    cluster.node.add_dependency(logs)
    cdk.Annotations.of(cluster).acknowledge_warning(
        "@aws-cdk/aws-eks:clusterMustManuallyTagSubnet",
        "a network of ours tags its subnets itself, and load balancers in one of somebody else name theirs",
    )
    return cluster


def _endpoint_access(spec: Cluster) -> eks.EndpointAccess:
    if spec.endpoint_access == "private":
        return eks.EndpointAccess.PRIVATE
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*spec.public_access_cidrs)
