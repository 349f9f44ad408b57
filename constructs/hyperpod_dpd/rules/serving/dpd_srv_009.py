"""DPD-SRV-009: the workers fit on the nodes of their groups."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import nodes_taken
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-009",
    severity=Severity.ERROR,
    title="every group has the nodes that its workers take, at their highest number",
    sources=("Kubernetes scheduler: a pod without a node stays pending",),
)
def workers_fit_on_their_nodes(deployment: Deployment) -> Iterator[Problem]:
    """A worker without a node stays pending, and the deployment waits for it until it fails."""
    nodes = nodes_taken(deployment)
    if nodes is None:
        return
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if nodes[group.name] > group.count:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].count",
                says=f"group `{group.name}` has fewer nodes than its workers take",
                given=f"`count: {group.count}`",
                computed=f"{nodes[group.name]} nodes",
                fix=f"set `count: {nodes[group.name]}`, or lower replicas or `scaling.maximum`",
            )
