"""DPD-LINT-117: LMCache holds nothing but hand-offs."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.words import is_true
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-117",
    severity=Severity.WARNING,
    title="`enable_p2p`, `save_decode_cache` and `local_cpu` are off beside PD",
    sources=("LMCache documentation, disaggregated prefill", "LMCache/LMCache issue 1878"),
    facts=("L17",),
)
def nothing_but_hand_offs(manifests: ManifestSet) -> Iterator[Fault]:
    """Host memory under pressure keeps LMCache from storing what has to be handed over."""
    for worker in manifests.handing_over:
        if worker.operator or not worker.through_lmcache or not worker.lmcache or not worker.lmcache_known:
            continue
        for key, default in (("enable_p2p", False), ("save_decode_cache", False), ("local_cpu", True)):
            given = worker.lmcache.get(key)
            if is_true(given) or (given is None and default):
                yield fault(
                    worker.at(key) if given is not None else worker.at("enable_pd"),
                    says=f"`{key}` of {worker} competes with the hand-off",
                    given=f"`{key}: {given.shown()}`"
                    if given is not None
                    else f"no `{key}`, which means true",
                    fix=f"set `{key}: false`",
                )
