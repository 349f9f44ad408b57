"""DPD-EKS-018: a private endpoint from the start is not proven."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-018",
    severity=Severity.WARNING,
    title="HyperPod's first creation is only proven with the public endpoint on",
    sources=("awsome-distributed-ai TF variables.tf (public may be turned off after the first deployment)",),
)
def private_endpoint_is_unproven(deployment: Deployment) -> Iterator[Problem]:
    """No public report shows HyperPod attach to a cluster that never had a public endpoint."""
    cluster = deployment.cluster
    if cluster.existing is None and cluster.endpoint_access == "private":
        yield Problem(
            path="cluster.endpoint_access",
            says="a private endpoint is proven for existing clusters only",
            given="`endpoint_access: private`",
            fix="deploy once with both endpoints and limited addresses, then switch; acknowledge once it is switched",
        )
