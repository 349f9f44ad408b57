"""DPD-SRV-209: the model can read sequences of that length."""

from collections.abc import Iterator

from hyperpod_dpd.derive import UnreadableModelError, geometry_of
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-209",
    severity=Severity.ERROR,
    title="`max_model_len_tokens` is at most the model's own limit",
    sources=("vLLM engine configuration (`max_model_len` ≤ derived), run",),
    facts=("V9",),
)
def model_reads_that_far(deployment: Deployment) -> Iterator[Problem]:
    """VLLM exits at start-up when it is asked for more positions than the model has."""
    try:
        geometry = geometry_of(deployment.model)
    except UnreadableModelError:
        return
    asked = deployment.serving.max_model_len_tokens
    if asked > geometry.max_position_tokens:
        yield Problem(
            path="serving.max_model_len_tokens",
            says=f"`{geometry.name}` has fewer positions",
            given=f"`max_model_len_tokens: {asked}`",
            limit=str(geometry.max_position_tokens),
            fix=f"set `max_model_len_tokens: {geometry.max_position_tokens}` or less",
        )
