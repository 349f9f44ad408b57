"""DPD-SRV-111: the router's notifications are not switched off."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import environment
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-111",
    severity=Severity.ERROR,
    title="`pd_skip_proxy_notification` is not set",
    sources=("LMCache/LMCache PR 2874, PR 3038 (the asynchronous backend ignores it)",),
    facts=("L11",),
)
def notifications_stay_on(deployment: Deployment) -> Iterator[Problem]:
    """The router decodes only after every rank has notified it; without notifications no hand-off is ever used."""
    for path, name, value in environment(deployment):
        if name == "LMCACHE_PD_SKIP_PROXY_NOTIFICATION":
            yield Problem(
                path=path,
                says="the router would never learn that a KV cache has landed",
                given=f"`{name}: {value}`",
                fix="remove it",
            )
