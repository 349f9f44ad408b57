"""DPD-HP-009: a minimum needs continuous provisioning."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-HP-009",
    severity=Severity.ERROR,
    title="`minimum` is given with continuous provisioning only",
    sources=("AWS::SageMaker::Cluster MinInstanceCount (Continuous only)",),
)
def minimum_needs_continuous_provisioning(deployment: Deployment) -> Iterator[Problem]:
    """Without continuous provisioning every node is required anyway, and HyperPod refuses the property."""
    if deployment.hyperpod.continuous_provisioning:
        return
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if group.minimum is not None:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].minimum",
                says=f"group `{group.name}` has a minimum without continuous provisioning",
                given=f"`minimum: {group.minimum}` with `continuous_provisioning: false`",
                fix="remove `minimum`, or set `hyperpod.continuous_provisioning: true`",
            )
