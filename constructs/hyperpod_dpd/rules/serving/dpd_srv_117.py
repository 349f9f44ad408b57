"""DPD-SRV-117: LMCache holds nothing but hand-offs."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import environment, hands_over_through_lmcache
from hyperpod_dpd.spec import Deployment

_FALSE: Final = frozenset({"0", "false", "no", "off"})
_SWITCHES: Final = ("LMCACHE_ENABLE_P2P", "LMCACHE_LOCAL_CPU", "LMCACHE_SAVE_DECODE_CACHE")


@deployment_rule(
    "DPD-SRV-117",
    severity=Severity.WARNING,
    title="`enable_p2p`, `save_decode_cache` and `local_cpu` stay off beside PD",
    sources=("LMCache documentation, disaggregated prefill", "LMCache/LMCache issue 1878"),
    facts=("L17",),
)
def nothing_but_hand_offs(deployment: Deployment) -> Iterator[Problem]:
    """Host memory under pressure keeps LMCache from storing what has to be handed over."""
    if not hands_over_through_lmcache(deployment):
        return
    for path, name, value in environment(deployment):
        if name in _SWITCHES and value.lower() not in _FALSE:
            yield Problem(
                path=path,
                says=f"`{name.removeprefix('LMCACHE_').lower()}` competes with the hand-off",
                given=f"`{name}: {value}`",
                fix="remove it, or acknowledge the warning with the measurement that speaks for it",
            )
