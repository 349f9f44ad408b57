"""DPD-LINT-122: weights and a sequence fit."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.physics import (
    GIB,
    UnshardableError,
    kv_bytes_per_token_per_rank,
    memory_fit,
    refuse_unless_shardable,
    weights_bytes_per_rank,
)
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-122",
    severity=Severity.ERROR,
    title="weights, reserve and one sequence of full length fit into vLLM's share of the GPU",
    sources=("llm-d-planner 0.3.3 memory constants (vLLM 0.19 on H100)",),
)
def weights_and_a_sequence_fit(manifests: ManifestSet) -> Iterator[Fault]:
    """VLLM exits at start-up when not even one sequence of full length has room beside the weights."""
    for worker in manifests.workers:
        ranks, longest, geometry = worker.tensor_parallel, worker.max_model_len_tokens, worker.geometry
        if worker.instance is None or geometry is None or not ranks or longest is None:
            continue
        share = worker.gpu_memory_utilization
        try:
            refuse_unless_shardable(geometry, ranks)
        except UnshardableError:
            continue  # DPD-LINT-209 has spoken
        if share is None:
            continue  # DPD-LINT-214 has spoken
        size = worker.lmcache.get("pd_buffer_size")
        memory = memory_fit(
            worker.instance.gpu,
            weights_bytes=weights_bytes_per_rank(geometry, worker.weights, ranks),
            kv_bytes_per_token=kv_bytes_per_token_per_rank(geometry, worker.kv_cache, ranks),
            sequence_tokens=longest,
            tensor_parallel=ranks,
            gpu_memory_utilization=share,
            pd_buffer_bytes=(size.number if size is not None else None) or 0,
        )
        if not memory.holds_a_sequence:
            needed = memory.weights_bytes + memory.reserve_bytes + memory.sequence_bytes
            yield fault(
                worker.argument_at("--tensor-parallel-size"),
                says=f"{worker} does not fit on `{worker.instance.name}`",
                given=f"`--tensor-parallel-size {ranks}`, `--max-model-len {longest}`",
                computed=f"weights {memory.weights_bytes / GIB:.1f} GiB + reserve {memory.reserve_bytes / GIB:.1f} GiB + "
                f"one sequence {memory.sequence_bytes / GIB:.1f} GiB = {needed / GIB:.1f} GiB per GPU",
                limit=f"{memory.share_bytes / GIB:.1f} GiB: {share:.2f} of {memory.hbm_bytes / GIB:.1f} GiB",
                fix="raise `--tensor-parallel-size`, or lower `--max-model-len`",
            )
