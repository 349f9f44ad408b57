"""One colocated engine under a closed loop: the prediction that a measurement can contradict."""

import dataclasses

from hyperpod_dpd.catalog.calibration import HAND_OFF, MEASURED, StepCalibration
from hyperpod_dpd.catalog.instances import InstanceType
from hyperpod_dpd.catalog.models import ModelGeometry
from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.physics import (
    kv_bytes_per_token_per_rank,
    memory_fit,
    refuse_unless_shardable,
    weights_bytes_per_rank,
)
from hyperpod_dpd.physics.precision import Precision
from hyperpod_dpd.planner.engine import EngineLimits
from hyperpod_dpd.planner.simulation import Outcome, simulate
from hyperpod_dpd.planner.step import step_model
from hyperpod_dpd.planner.summary import Summary, summarize
from hyperpod_dpd.planner.system import Colocated, EngineSpec, Frontend
from hyperpod_dpd.planner.workload import ClosedLoop, FixedLengths, LengthSource

_LEAST_REQUESTS = 50
"""Requests of a benchmark run in the announcement and in our measurements."""


def one_rank_of(geometry: ModelGeometry, tensor_parallel: int) -> ModelGeometry:
    """Return a model that on one GPU weighs and computes what one of `tensor_parallel` ranks of `geometry` does.

    Heads, feed-forward width and vocabulary are divided; nothing is left to reduce over ranks. Measurements on a
    single GPU are made with such a model.

    Raises:
        UnshardableError: the model cannot be divided over that many ranks.
    """
    refuse_unless_shardable(geometry, tensor_parallel)
    experts = geometry.experts
    return dataclasses.replace(
        geometry,
        name=f"{geometry.name} (one of {tensor_parallel} ranks)",
        attention_heads=geometry.attention_heads // tensor_parallel,
        kv_heads=max(1, geometry.kv_heads // tensor_parallel),
        intermediate_size=geometry.intermediate_size // tensor_parallel,
        vocabulary_size=geometry.vocabulary_size // tensor_parallel,
        experts=dataclasses.replace(experts, intermediate_size=experts.intermediate_size // tensor_parallel)
        if experts
        else None,
    )


def predict_colocated(
    geometry: ModelGeometry,
    instance: InstanceType,
    *,
    concurrency: int,
    input_tokens: int = 4096,
    output_tokens: int = 256,
    max_num_batched_tokens: int = VLLM_DEFAULTS.max_num_batched_tokens,
    max_num_seqs: int = VLLM_DEFAULTS.max_num_seqs,
    requests: int | None = None,
    tensor_parallel: int = 1,
    weights: Precision = "bf16",
    kv_cache: Precision = "bf16",
    prefix_hit_share: float = 0.0,
    lengths: LengthSource | None = None,
    calibration: StepCalibration = MEASURED,
) -> Summary:
    """Predict what a closed-loop client of one colocated vLLM engine measures.

    Example: one rank of Llama 3.3 70B at eight ranks, on one H200, with a token budget of 512::

        rank = one_rank_of(model("llama-3.3-70b-instruct"), 8)
        predict_colocated(rank, instance_type("ml.p5en.48xlarge"), concurrency=32, max_num_batched_tokens=512)

    Args:
        geometry: the model.
        instance: where it runs; one worker of `tensor_parallel` GPUs.
        concurrency: users; each sends its next request when the last is answered.
        input_tokens: prompt of every request.
        output_tokens: answer of every request.
        max_num_batched_tokens: token budget of a step.
        max_num_seqs: most sequences in a step.
        requests: requests in all; by default 50, or twice the concurrency where that is more.
        tensor_parallel: ranks of the worker; 1 has no all-reduce.
        weights: precision of the linear layers.
        kv_cache: precision of the KV cache.
        prefix_hit_share: share of every prompt that the prefix cache holds.
        lengths: other lengths than the fixed ones.
        calibration: constants of the step times.

    Raises:
        UnshardableError: the model cannot be divided over the ranks.
        PromptTooLongError: a request does not fit into the KV cache.
        NoTrafficError: no user or no request.
    """
    return summarize(
        run_colocated(
            geometry,
            instance,
            ClosedLoop(
                concurrency=concurrency,
                lengths=lengths or FixedLengths(input_tokens=input_tokens, output_tokens=output_tokens),
                requests=requests if requests is not None else max(_LEAST_REQUESTS, 2 * concurrency),
            ),
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            tensor_parallel=tensor_parallel,
            weights=weights,
            kv_cache=kv_cache,
            prefix_hit_share=prefix_hit_share,
            calibration=calibration,
        )
    )


def run_colocated(
    geometry: ModelGeometry,
    instance: InstanceType,
    workload: ClosedLoop,
    *,
    max_num_batched_tokens: int = VLLM_DEFAULTS.max_num_batched_tokens,
    max_num_seqs: int = VLLM_DEFAULTS.max_num_seqs,
    tensor_parallel: int = 1,
    weights: Precision = "bf16",
    kv_cache: Precision = "bf16",
    prefix_hit_share: float = 0.0,
    calibration: StepCalibration = MEASURED,
) -> Outcome:
    """Run `workload` against one colocated engine without a router; arguments as `predict_colocated`."""
    kv_bytes = kv_bytes_per_token_per_rank(geometry, kv_cache, tensor_parallel)
    memory = memory_fit(
        instance.gpu,
        weights_bytes=weights_bytes_per_rank(geometry, weights, tensor_parallel),
        kv_bytes_per_token=kv_bytes,
        sequence_tokens=1,
        tensor_parallel=tensor_parallel,
        gpu_memory_utilization=0.9,
    )
    engine = EngineSpec(
        times=step_model(
            geometry,
            instance.gpu,
            tensor_parallel=tensor_parallel,
            weights=weights,
            kv_cache=kv_cache,
            graph_tokens=VLLM_DEFAULTS.graph_tokens(
                max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens
            ),
            calibration=calibration,
        ),
        limits=EngineLimits(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=min(max_num_seqs, max_num_batched_tokens),
            kv_tokens=memory.kv_tokens,
        ),
    )
    frontend = Frontend(
        request_seconds=HAND_OFF.request_seconds,
        request_seconds_per_token=HAND_OFF.request_seconds_per_token,
        router_seconds=0.0,
    )
    return simulate(
        Colocated(engine=engine, workers=1, frontend=frontend), workload, prefix_hit_share=prefix_hit_share
    )
