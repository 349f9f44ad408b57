"""DPD-SRV-002: the model divides over the ranks."""

from collections.abc import Iterator

from hyperpod_dpd.derive import UnreadableModelError, geometry_of
from hyperpod_dpd.physics import UnshardableError, refuse_unless_shardable
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-002",
    severity=Severity.ERROR,
    title="attention heads and KV heads divide over `tensor_parallel`",
    sources=(
        "vLLM engine configuration (heads % tensor parallel size)",
        "llm-d docs/operations/disaggregation",
    ),
    facts=("V9",),
)
def model_divides_over_ranks(deployment: Deployment) -> Iterator[Problem]:
    """VLLM exits at start-up when heads do not divide over the ranks."""
    ranks = deployment.serving.tensor_parallel
    try:
        refuse_unless_shardable(geometry_of(deployment.model), ranks)
    except UnreadableModelError:
        return
    except UnshardableError as error:
        yield Problem(
            path="serving.tensor_parallel",
            says=f"`{error.geometry.name}` cannot be divided over the ranks: {error.reason}",
            given=f"`tensor_parallel: {ranks}`",
            fix=str(error).partition("help: ")[2],
        )
