"""DPD-HP-015: decoders do not run on spot capacity."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, Role, Spot


@deployment_rule(
    "DPD-HP-015",
    severity=Severity.WARNING,
    title="decode groups do not run on spot capacity",
    sources=("EC2 user guide, spot interruptions (two minutes' notice)",),
)
def decoders_are_not_spot(deployment: Deployment) -> Iterator[Problem]:
    """A decoder holds the KV cache of every answer in flight: when AWS takes the node back, all of them break off."""
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if group.role is Role.DECODE and isinstance(group.capacity, Spot):
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].capacity",
                says=f"decoders of group `{group.name}` can be taken away within two minutes",
                given="`type: spot`",
                limit=f"answers of up to {deployment.serving.longest_generation_seconds} s",
                fix="use on-demand capacity or a training plan for decode; prefill loses little on spot",
            )
