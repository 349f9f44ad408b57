"""DPD-SRV-014: the router has the memory for the bodies that it may hold."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import self_managed
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-014",
    severity=Severity.ERROR,
    title="`max_queued_mib` is below the router's `memory_gib`",
    sources=("Kubernetes: a container above its memory limit is ended by the kernel",),
)
def router_holds_what_it_queues(deployment: Deployment) -> Iterator[Problem]:
    """A limit above the memory is none: the kernel ends the router, and with it every open request."""
    routing = deployment.routing
    memory_mib = routing.memory_gib << 10
    if self_managed(deployment) and routing.max_queued_mib >= memory_mib:
        yield Problem(
            path="routing.max_queued_mib",
            says="the router may hold more than it has memory for",
            given=f"`max_queued_mib: {routing.max_queued_mib}`",
            limit=f"`memory_gib: {routing.memory_gib}`, {memory_mib:,} MiB",
            fix="lower `max_queued_mib`, or raise `memory_gib`",
        )
