"""DPD-SRV-512: an LMCache that never blocks inside a step."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.catalog.engines import DEFAULT_ENGINE
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import engine_or_none, hands_over_through_lmcache, self_managed
from hyperpod_dpd.spec import Deployment

ASYNCHRONOUS_SINCE: Final = "0.4.5"


@deployment_rule(
    "DPD-SRV-512",
    severity=Severity.WARNING,
    title="LMCache is 0.4.5 or newer",
    sources=("LMCache 0.4.3 source (allocation without a timeout inside the forward pass)",),
    facts=("H12",),
)
def lmcache_never_blocks_a_step(deployment: Deployment) -> Iterator[Problem]:
    """A decoder that dies while an older sender waits for it hangs every rank of the prefiller until it is restarted."""
    engine = engine_or_none(deployment)
    if engine is None or not self_managed(deployment) or not hands_over_through_lmcache(deployment):
        return
    if not engine.transfers_asynchronously:
        yield Problem(
            path="serving.engine",
            says="this LMCache waits for the decoder inside the forward pass, without a limit",
            given=f"LMCache {engine.lmcache}",
            limit=ASYNCHRONOUS_SINCE,
            fix=f"use the engine `{DEFAULT_ENGINE['self-managed']}`; with the older one a hung prefiller restarts itself",
        )
