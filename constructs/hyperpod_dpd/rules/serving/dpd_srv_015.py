"""DPD-SRV-015: nodes that are paid for have workers."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import nodes_taken
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-015",
    severity=Severity.WARNING,
    title="no node is without a worker",
    sources=("this project: a role runs in one group, so a second group of that role stays empty",),
)
def nodes_have_workers(deployment: Deployment) -> Iterator[Problem]:
    """A node without a worker costs as much as one that serves, and nothing else shows it."""
    # the owner of the cluster pays for its nodes, and knows who runs on them
    nodes = nodes_taken(deployment) if deployment.cluster.existing is None else None
    if nodes is None:
        return
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if group.count > nodes[group.name]:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].count",
                says=f"group `{group.name}` has nodes without a worker",
                given=f"`count: {group.count}`",
                computed=f"workers take {nodes[group.name] or 'none'} of them at their highest number",
                fix="lower `count`, or acknowledge who runs there: another deployment, or nobody because they are spares",
            )
