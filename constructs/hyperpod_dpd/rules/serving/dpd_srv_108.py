"""DPD-SRV-108: the router outwaits the sender."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import hands_over_through_lmcache, self_managed
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-108",
    severity=Severity.ERROR,
    title="the router waits longer for a notification than the sender for room in the buffer",
    sources=(
        "LMCache/LMCache issue 4209",
        "LMCache 0.5.3 source, async PD backend (no notification after an abort)",
    ),
    facts=("L8",),
)
def router_outwaits_sender(deployment: Deployment) -> Iterator[Problem]:
    """A router that gives up first falls back while the cache may still land, where nobody consumes it any more."""
    if not hands_over_through_lmcache(deployment) or not self_managed(deployment):
        return
    sender = deployment.serving.transfer.allocation_timeout_seconds
    router = deployment.routing.notification_timeout_seconds
    if router <= sender:
        yield Problem(
            path="routing.notification_timeout_seconds",
            says="the router gives a hand-off up before the sender does",
            given=f"`notification_timeout_seconds: {router:g}`",
            limit=f"more than `allocation_timeout_seconds: {sender:g}`",
            fix=f"set `notification_timeout_seconds: {sender * 1.5:g}`, or lower `allocation_timeout_seconds`",
        )
