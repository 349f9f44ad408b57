"""DPD-HP-002: no placement group."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, TrainingPlan


@deployment_rule(
    "DPD-HP-002",
    severity=Severity.ERROR,
    title="instance groups name no placement group",
    sources=(
        "AWS::SageMaker::Cluster (no property for it)",
        "EC2 user guide, capacity blocks and placement groups",
    ),
)
def no_placement_group(deployment: Deployment) -> Iterator[Problem]:
    """HyperPod cannot place a group, and reserved capacity already has its place: the name would do nothing."""
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if group.placement_group is None:
            continue
        reserved = isinstance(group.capacity, TrainingPlan)
        yield Problem(
            path=f"hyperpod.instance_groups[{index}].placement_group",
            says=f"group `{group.name}` has a placement group"
            + (" together with a training plan" if reserved else ", which HyperPod cannot use"),
            given=f"`placement_group: {group.placement_group}`"
            + (f" with `{group.capacity.arn}`" if isinstance(group.capacity, TrainingPlan) else ""),
            fix="remove `placement_group`; nodes of one zone and one plan are placed together already",
        )
