"""DPD-EKS-015: the system node group may grow to its size."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-015",
    severity=Severity.ERROR,
    title="the system node group's maximum is not below its count",
    sources=("AWS::EKS::Nodegroup ScalingConfig",),
)
def maximum_holds_the_count(deployment: Deployment) -> Iterator[Problem]:
    """EKS refuses a desired size above the maximum."""
    nodes = deployment.cluster.system_nodes
    if nodes.maximum < nodes.count:
        yield Problem(
            path="cluster.system_nodes.maximum",
            says="more system nodes than the maximum allows",
            given=f"`count: {nodes.count}` and `maximum: {nodes.maximum}`",
            fix=f"set `maximum` to at least {nodes.count + 1}, so that an upgrade can add a node",
        )
