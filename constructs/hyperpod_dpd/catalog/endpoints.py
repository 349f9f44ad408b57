"""AWS services that something in the VPC calls, and that a network without a way out reaches by endpoints."""

from collections.abc import Collection, Mapping

from hyperpod_dpd.catalog.regions import Region

ENDPOINT_SERVICES: Mapping[str, str] = {
    "ec2": "the VPC CNI attaches addresses; without it no node becomes ready",
    "ecr.api": "nodes ask for pull tokens",
    "ecr.dkr": "nodes pull images",
    "sts": "roles of service accounts",
    "eks": "nodes, kubectl and the build of HyperPod's dependencies describe the cluster",
    "eks-auth": "EKS Pod Identity",
    "logs": "lifecycle script, builds and containers log",
    "monitoring": "CloudWatch metrics",
    "ssm": "HyperPod bootstraps nodes and opens sessions",
    "ssmmessages": "HyperPod bootstraps nodes and opens sessions",
    "ec2messages": "HyperPod bootstraps nodes and opens sessions",
    "sagemaker.api": "the inference operator registers endpoints; the poller looks at nodes",
    "events": "the poller ends its own schedule",
    "lambda": "the provider framework calls the function that runs Helm",
    "elasticloadbalancing": "the load balancer controller",
    "secretsmanager": "External Secrets",
    "kms": "encrypted volumes and secrets",
    "codebuild": "builds report to CodeBuild",
    "aps-workspaces": "metrics go to Amazon Managed Prometheus",
}
"""Services that something in the VPC calls, behind `com.amazonaws.<region>.`, and who calls them."""


def endpoint_services(region: Region, *, without: Collection[str] = ()) -> tuple[str, ...]:
    """Return the services that exist in `region`, but for those that have an endpoint already."""
    services = (*ENDPOINT_SERVICES, "grafana-workspace") if region.managed_grafana else (*ENDPOINT_SERVICES,)
    return tuple(service for service in services if service not in without)
