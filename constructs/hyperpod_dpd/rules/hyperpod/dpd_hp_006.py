"""DPD-HP-006: every group has a role."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, Role


@deployment_rule(
    "DPD-HP-006",
    severity=Severity.ERROR,
    title="every instance group has a role",
    sources=("this project: workers find their nodes by the group's role",),
)
def every_group_has_a_role(deployment: Deployment) -> Iterator[Problem]:
    """Nodes without a role cost as much as the others and serve nobody."""
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if group.role is None:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}]",
                says=f"group `{group.name}` has no role",
                given="no `role`",
                limit=", ".join(f"`{role.value}`" for role in Role),
                fix="say what its nodes do, for example `role: decode`",
            )
