"""DPD-HP-007: prefill and decode have nodes of their own."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, Role


@deployment_rule(
    "DPD-HP-007",
    severity=Severity.ERROR,
    title="prefill and decode have at least one instance group each",
    sources=("ai-dynamo/dynamo PR 9521 (EFA has no loopback inside a node)",),
    facts=("P28",),
)
def both_roles_have_a_group(deployment: Deployment) -> Iterator[Problem]:
    """EFA has no way back into its own node, so the two roles cannot share one, and one alone is not disaggregated."""
    groups = deployment.hyperpod.instance_groups
    if any(group.role is None for group in groups):
        return
    for role in (Role.PREFILL, Role.DECODE):
        if not deployment.groups(role):
            listed = ", ".join(f"`{group.name}` ({group.role})" for group in groups)
            yield Problem(
                path="hyperpod.instance_groups",
                says=f"no instance group for {role.value}",
                given=listed,
                fix=f"add a group with `role: {role.value}`",
            )
