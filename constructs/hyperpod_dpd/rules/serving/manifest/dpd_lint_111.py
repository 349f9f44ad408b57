"""DPD-LINT-111: the router is notified."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.words import is_true
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-111",
    severity=Severity.ERROR,
    title="`pd_skip_proxy_notification` is off where the router waits for notifications",
    sources=("LMCache/LMCache PR 2874, PR 3038 (the asynchronous backend ignores it)",),
    facts=("L11",),
)
def notifications_stay_on(manifests: ManifestSet) -> Iterator[Fault]:
    """A router that waits for notifications waits for ever, and the asynchronous backend notifies all the same."""
    for worker in manifests.handing_over:
        given = worker.lmcache.get("pd_skip_proxy_notification")
        if is_true(given):
            yield fault(
                worker.at("pd_skip_proxy_notification"),
                says=f"{worker} would not tell the router that a KV cache has landed",
                given="`pd_skip_proxy_notification: true`",
                fix="remove it",
            )
