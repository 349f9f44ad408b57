"""DPD-LINT-123: PD is on."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.words import is_true
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule

_NEEDED: Final = {
    "pd_role": ("sender", "receiver"),
    "pd_buffer_size": (),
    "pd_buffer_device": ("cuda", "cpu"),
    "transfer_channel": ("nixl",),
}
"""Keys that PD needs, with what they may say."""


@manifest_rule(
    "DPD-LINT-123",
    severity=Severity.ERROR,
    title="a worker with LMCache's connector has the keys without which PD is off",
    sources=("LMCache 0.4.3 and 0.5.6 configuration loader, run", "LMCache/LMCache issue 1473"),
    facts=("L10",),
)
def pd_is_on(manifests: ManifestSet) -> Iterator[Fault]:
    """Without them LMCache starts as a plain cache: nothing is handed over, and no message says so."""
    for worker in manifests.handing_over:
        if worker.operator or not worker.through_lmcache or not worker.lmcache_known:
            continue
        if not is_true(worker.lmcache.get("enable_pd")):
            given = worker.lmcache.get("enable_pd")
            yield fault(
                worker.at("enable_pd"),
                says=f"{worker} hands nothing over: PD is off",
                given="no `enable_pd`" if given is None else f"`enable_pd: {given.shown()}`",
                fix="set `enable_pd: true` in LMCache's configuration, or `LMCACHE_ENABLE_PD`",
            )
            continue
        for key, allowed in _NEEDED.items():
            given = worker.lmcache.get(key)
            if given is None or (allowed and given.text not in allowed):
                yield fault(
                    worker.at(key) if given is not None else worker.at("enable_pd"),
                    says=f"`{key}` of {worker} is missing"
                    if given is None
                    else f"`{key}` of {worker} is wrong",
                    given="nothing" if given is None else f"`{key}: {given.shown()}`",
                    limit=" or ".join(f"`{each}`" for each in allowed),
                    fix=f"set `{key}`",
                )
