"""DPD-HP-010: no taints of one's own on groups with deep health checks."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-HP-010",
    severity=Severity.ERROR,
    title="a group with deep health checks has no taints",
    sources=("SageMaker DG sagemaker-hyperpod-eks-prerequisites",),
)
def no_taints_with_deep_health_checks(deployment: Deployment) -> Iterator[Problem]:
    """The check's pods do not tolerate them, so the nodes never pass and never join."""
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if group.taints and group.deep_health_checks:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].taints",
                says=f"group `{group.name}` has taints that keep its deep health checks away",
                given=", ".join(f"`{taint.key}:{taint.effect}`" for taint in group.taints),
                fix="remove `taints`: workers are kept apart by labels; or set `deep_health_checks: []`",
            )
