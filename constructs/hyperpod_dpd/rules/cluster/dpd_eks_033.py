"""DPD-EKS-033: the router fits on a system node."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.system_nodes import system_instance
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_DAEMONS_CPUS = 0.5
_DAEMONS_GIB = 1.0
"""What DaemonSets and small controllers request on every node: kube-proxy 0.1 CPU, VPC CNI 0.05, CSI and agents."""


@deployment_rule(
    "DPD-EKS-033",
    severity=Severity.ERROR,
    title="the router's request fits on one system node",
    sources=("EKS user guide and bottlerocket/amazon-eks-ami bootstrap: kube-reserved CPU and memory",),
)
def router_fits(deployment: Deployment) -> Iterator[Problem]:
    """A request above what a node can allocate leaves the router Pending, and nothing is served."""
    nodes, routing = deployment.cluster.system_nodes, deployment.routing
    instance = system_instance(nodes.instance_type)
    if instance is None:
        return
    for key, unit, asked, room in (
        ("cpu", "CPUs", routing.cpu, instance.allocatable_cpus - _DAEMONS_CPUS),
        ("memory_gib", "GiB", float(routing.memory_gib), instance.allocatable_gib - _DAEMONS_GIB),
    ):
        if asked > room:
            yield Problem(
                path=f"routing.{key}",
                says="the router does not fit on a system node",
                given=f"`routing.{key}: {asked:g}` on `{nodes.instance_type}`",
                limit=f"{room:.2f} {unit} beside the node's own pods",
                fix="lower it, or choose a larger `cluster.system_nodes.instance_type`",
            )
