"""DPD-EKS-001: the API server is not open to the world."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-001",
    severity=Severity.WARNING,
    title="the public endpoint of the API server is limited to known addresses",
    sources=(
        "cfn-guard eks_endpoint_no_public_access; cdk-nag AwsSolutions-EKS1 does not see aws_eks_v2",
        "awsome-distributed-ai TF variables.tf (both endpoints on by default)",
    ),
)
def endpoint_is_not_open(deployment: Deployment) -> Iterator[Problem]:
    """Anybody on the internet can talk to an open API server; IAM is then the only lock."""
    cluster = deployment.cluster
    if cluster.existing is not None or cluster.endpoint_access == "private":
        return
    for index, cidr in enumerate(cluster.public_access_cidrs):
        if cidr.endswith("/0"):
            yield Problem(
                path=f"cluster.public_access_cidrs[{index}]",
                says="the API server is open to the internet",
                given=f"`{cidr}`",
                fix="list your own addresses in `cluster.public_access_cidrs`, set `cluster.endpoint_access: private` "
                "after the first deployment, or acknowledge it",
            )
