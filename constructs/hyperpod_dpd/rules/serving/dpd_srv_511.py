"""DPD-SRV-511: the strategy `land` was run on hardware with one engine."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.engines import DEFAULT_ENGINE, engine
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import engine_or_none, hands_over_through_lmcache, self_managed
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-511",
    severity=Severity.WARNING,
    title="the hand-off strategy was proven on hardware with the declared engine",
    sources=(
        "run on two NVIDIA H200, twice 300 requests with vLLM 0.25.1 and LMCache 0.5.3: hits complete",
        "vLLM 0.25.1 and LMCache 0.4.3, 0.5.3, 0.5.6 source (`cache_salt`)",
    ),
    facts=("H11",),
)
def strategy_is_proven(deployment: Deployment) -> Iterator[Problem]:
    """`land` follows from the sources of other versions, too, but no real engine of theirs has run it yet."""
    declared = engine_or_none(deployment)
    applies = hands_over_through_lmcache(deployment) and self_managed(deployment)
    if declared is None or not applies or deployment.routing.strategy != "land":
        return
    proven = engine(DEFAULT_ENGINE["self-managed"])
    if (declared.vllm, declared.lmcache) != (proven.vllm, proven.lmcache):
        yield Problem(
            path="routing.strategy",
            says="this strategy was not run on hardware with this engine yet",
            given=f"`strategy: land` with vLLM {declared.vllm} and LMCache {declared.lmcache}",
            limit=f"`{proven.name}`",
            fix="run the proof job and acknowledge the warning, or use `strategy: continue`",
        )
