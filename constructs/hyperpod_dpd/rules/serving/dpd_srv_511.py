"""DPD-SRV-511: the strategy `land` was not run on hardware."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import hands_over_through_lmcache, self_managed
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-511",
    severity=Severity.WARNING,
    title="the hand-off strategy was proven on hardware",
    sources=("vLLM 0.25.1 and LMCache 0.4.3, 0.5.3, 0.5.6 source (`cache_salt`)",),
    facts=("H11",),
)
def strategy_is_proven(deployment: Deployment) -> Iterator[Problem]:
    """`land` follows from the sources of both engines, but no real engine has run it yet."""
    applies = hands_over_through_lmcache(deployment) and self_managed(deployment)
    if applies and deployment.routing.strategy == "land":
        yield Problem(
            path="routing.strategy",
            says="this strategy was not run on hardware yet",
            given="`strategy: land`",
            fix="run the proof job and acknowledge the warning, or use `strategy: continue`",
        )
