"""DPD-LINT-209: the model divides over the ranks."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.physics import UnshardableError, refuse_unless_shardable
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-209",
    severity=Severity.ERROR,
    title="attention heads divide over the ranks, and `--max-model-len` is at most the model's own limit",
    sources=("vLLM engine configuration, run (heads % tensor parallel size, `max_model_len` ≤ derived)",),
    facts=("V9",),
)
def model_divides_and_reads_that_far(manifests: ManifestSet) -> Iterator[Fault]:
    """VLLM exits at start-up when heads do not divide, or when it is asked for more positions than the model has."""
    for worker in manifests.workers:
        ranks, geometry = worker.tensor_parallel, worker.geometry
        if geometry is None:
            continue
        try:
            if ranks is not None:
                refuse_unless_shardable(geometry, ranks)
        except UnshardableError as error:
            yield fault(
                worker.argument_at("--tensor-parallel-size"),
                says=f"`{geometry.name}` cannot be divided over the ranks: {error.reason}",
                given=f"`--tensor-parallel-size {ranks}`",
                fix=str(error).partition("help: ")[2],
            )
        longest = worker.max_model_len_tokens
        if longest is not None and longest > geometry.max_position_tokens:
            yield fault(
                worker.argument_at("--max-model-len"),
                says=f"`{geometry.name}` has fewer positions",
                given=f"`--max-model-len {longest}`",
                limit=str(geometry.max_position_tokens),
                fix=f"set `--max-model-len {geometry.max_position_tokens}` or less",
            )
