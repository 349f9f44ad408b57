"""DPD-HP-003: broken nodes are found and replaced."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-HP-003",
    severity=Severity.WARNING,
    title="node recovery is automatic and every group has deep health checks",
    sources=("SageMaker DG sagemaker-hyperpod-eks-resiliency",),
)
def broken_nodes_are_replaced(deployment: Deployment) -> Iterator[Problem]:
    """A decoder on a node with one bad EFA device or GPU is slow for everybody until somebody notices."""
    if deployment.hyperpod.node_recovery == "none":
        yield Problem(
            path="hyperpod.node_recovery",
            says="unhealthy nodes are not replaced",
            given="`node_recovery: none`",
            fix="set `node_recovery: automatic`, or acknowledge who watches the nodes",
        )
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if not group.deep_health_checks:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].deep_health_checks",
                says=f"nodes of group `{group.name}` join without a deep health check",
                given="`deep_health_checks: []`",
                fix="remove the empty list to take both checks, or acknowledge it",
            )
