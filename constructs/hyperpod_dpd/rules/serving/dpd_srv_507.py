"""DPD-SRV-507: the decoder's prefix cache follows the router's hand-off strategy."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import hands_over_through_lmcache
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-507",
    severity=Severity.ERROR,
    title="prefix caching on decoders is off with strategy `continue`, on with `land`",
    sources=(
        "LMCache/LMCache issue 2933",
        "LMCache 0.5.3 source (chunks that vLLM already has are never freed)",
    ),
    facts=("H7",),
)
def prefix_cache_follows_strategy(deployment: Deployment) -> Iterator[Problem]:
    """Chunks that vLLM's prefix cache already has are received and never freed; `land` lives on that cache."""
    given, strategy = deployment.serving.decode.prefix_caching, deployment.routing.strategy
    if given is None or not hands_over_through_lmcache(deployment) or given == (strategy == "land"):
        return
    yield Problem(
        path="serving.decode.prefix_caching",
        says="each hand-off would leave chunks in the PD buffer"
        if given
        else "what has landed could not be served from the prefix cache",
        given=f"`prefix_caching: {str(given).lower()}`",
        limit=f"`routing.strategy: {strategy}`",
        fix="remove `prefix_caching`, it follows from the strategy",
    )
