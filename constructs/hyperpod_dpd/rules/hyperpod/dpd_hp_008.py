"""DPD-HP-008: a group's minimum is not above its count."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-HP-008",
    severity=Severity.ERROR,
    title="`minimum` is not above `count`",
    sources=("AWS::SageMaker::Cluster MinInstanceCount (0 to InstanceCount)",),
)
def minimum_is_within_count(deployment: Deployment) -> Iterator[Problem]:
    """HyperPod refuses the cluster, when network and EKS have been created and paid for."""
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if group.minimum is not None and group.minimum > group.count:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].minimum",
                says=f"group `{group.name}` needs more nodes than it shall have",
                given=f"`minimum: {group.minimum}` and `count: {group.count}`",
                fix=f"lower `minimum` to {group.count} or raise `count`",
            )
