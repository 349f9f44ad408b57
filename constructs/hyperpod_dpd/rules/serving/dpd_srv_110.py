"""DPD-SRV-110: LMCache knows every key that the environment gives it."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.catalog.engine_words import LMCACHE_LEGACY_KEYS, lmcache_keys
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import engine_or_none, environment
from hyperpod_dpd.spec import Deployment

PROCESS_VARIABLES: Final = frozenset({"config_file", "log_level", "track_usage"})
"""`LMCACHE_*` variables that are not keys of the configuration."""


@deployment_rule(
    "DPD-SRV-110",
    severity=Severity.ERROR,
    title="every `LMCACHE_*` variable is a key of the declared LMCache version",
    sources=("LMCache/LMCache issue 1473", "LMCache 0.5.3 source (`Unknown configuration key` is a warning)"),
    facts=("L10",),
)
def lmcache_keys_are_known(deployment: Deployment) -> Iterator[Problem]:
    """LMCache drops a key that it does not know, legacy ones of PD among them, and goes on without it."""
    engine = engine_or_none(deployment)
    known = lmcache_keys(engine.lmcache) if engine is not None else None
    for path, name, _ in environment(deployment):
        key = name.removeprefix("LMCACHE_").lower()
        if not name.startswith("LMCACHE_") or key in PROCESS_VARIABLES:
            continue
        if key in LMCACHE_LEGACY_KEYS:
            yield Problem(
                path=path,
                says=f"`{key}` is a key of older LMCache releases",
                given=f"`{name}`",
                fix=f"remove it: `{LMCACHE_LEGACY_KEYS[key]}` replaced it, and this project computes that",
            )
        elif engine is not None and known is not None and key not in known:
            yield Problem(
                path=path,
                says=f"`{key}` is no key of LMCache {engine.lmcache}",
                given=f"`{name}`",
                fix="correct the name, or declare the version that has it in `serving.engine`",
            )
