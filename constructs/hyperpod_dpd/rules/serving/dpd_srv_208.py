"""DPD-SRV-208: the engine's versions were run together."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.engines import engines
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import engine_or_none
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-208",
    severity=Severity.WARNING,
    title="vLLM, LMCache and NIXL are a triple of the catalog",
    sources=("vllm-project/vllm issues 35799 (NIXL 0.10.0) and 27055 (NIXL 0.6.1 fails on EFA)",),
    facts=("V8",),
)
def versions_are_a_tested_triple(deployment: Deployment) -> Iterator[Problem]:
    """Patch releases of NIXL have broken EFA before; only a triple that was run is known to work."""
    engine = engine_or_none(deployment)
    if engine is None:
        return
    versions = (engine.vllm, engine.lmcache, engine.nixl)
    tested = {(row.vllm, row.lmcache, row.nixl): row.name for row in engines()}
    if versions not in tested:
        yield Problem(
            path="serving.engine",
            says="these versions were not run together",
            given=f"vLLM {engine.vllm}, LMCache {engine.lmcache}, NIXL {engine.nixl}",
            limit="; ".join(
                f"`{name}`: {vllm}, {lmcache}, {nixl}" for (vllm, lmcache, nixl), name in tested.items()
            ),
            fix="remove the versions, or run the proof job and acknowledge the warning",
        )
