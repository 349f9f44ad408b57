"""Arguments of `vllm serve`."""

import json
from collections.abc import Mapping
from typing import Any

from hyperpod_dpd.derive import RoleFacts, ServingFacts
from hyperpod_dpd.serving.engine.values import Variant
from hyperpod_dpd.serving.model_source import load_arguments, model_argument
from hyperpod_dpd.serving.names import WORKER_HTTP_PORT
from hyperpod_dpd.spec import Deployment, Role

_KV_CACHE_DTYPE = {"bf16": "auto", "fp8": "fp8"}
"""`auto` is the dtype of the model, which `--dtype` pins."""


def worker_arguments(
    deployment: Deployment, facts: ServingFacts, role: Role, transfer: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Return the arguments of a prefill or decode worker."""
    place = facts.role(role)
    return (
        *_common(deployment, facts),
        *_memory_and_batch(place),
        *(("--enforce-eager",) if place.enforce_eager else ()),
        "--enable-prefix-caching" if place.prefix_caching else "--no-enable-prefix-caching",
        # the router compares `cached_tokens` with the prompt: a decoder that misses prefills without a word
        *(("--enable-prompt-tokens-details",) if role is Role.DECODE else ()),
        *(("--kv-transfer-config", json.dumps(transfer, separators=(",", ":"))) if transfer else ()),
        *place.worker.extra_args,
        *_served_name(deployment),
    )


def colocated_arguments(deployment: Deployment, facts: ServingFacts, variant: Variant) -> tuple[str, ...]:
    """Return the arguments of a colocated worker: vLLM's own defaults, so that the comparison is a fair one."""
    baseline = deployment.serving.baseline
    arguments = [
        *_common(deployment, facts),
        "--gpu-memory-utilization",
        _fraction(baseline.gpu_memory_utilization),
        "--enable-prefix-caching",
        # a benchmark finds by these details that its prompts had been sent before
        "--enable-prompt-tokens-details",
    ]
    if baseline.max_num_seqs is not None:
        arguments += ["--max-num-seqs", str(baseline.max_num_seqs)]
    if variant is Variant.TUNED:
        arguments += ["--max-num-batched-tokens", str(baseline.tuned_max_num_batched_tokens)]
    return (*arguments, *_served_name(deployment))


def _common(deployment: Deployment, facts: ServingFacts) -> tuple[str, ...]:
    serving, model = deployment.serving, deployment.model
    block_size = serving.transfer.block_size_tokens
    tracing = deployment.routing.tracing_endpoint
    return (
        model_argument(deployment),
        *load_arguments(deployment),
        "--host",
        "0.0.0.0",  # noqa: S104 - the pod's own address; the network policy says who may connect
        "--port",
        str(WORKER_HTTP_PORT),
        "--tensor-parallel-size",
        str(facts.tensor_parallel),
        "--max-model-len",
        str(facts.max_model_len_tokens),
        "--dtype",
        "bfloat16",
        "--kv-cache-dtype",
        _KV_CACHE_DTYPE[model.kv_cache],
        *(("--block-size", str(block_size)) if block_size is not None else ()),
        *(("--trust-remote-code",) if model.trust_remote_code else ()),
        # over HTTP, like the router's: one endpoint takes both
        *(("--otlp-traces-endpoint", f"{tracing.rstrip('/')}/v1/traces") if tracing is not None else ()),
        # without it SIGTERM aborts what is being generated
        "--shutdown-timeout",
        str(serving.longest_generation_seconds),
        # probes and scrapes would be most of the log
        "--disable-access-log-for-endpoints",
        "/health,/metrics",
        "--disable-fastapi-docs",
    )


def _memory_and_batch(place: RoleFacts) -> tuple[str, ...]:
    """What physics assumed, written out, so that a new default of vLLM cannot contradict it."""
    return (
        "--gpu-memory-utilization",
        _fraction(place.gpu_memory_utilization),
        "--max-num-seqs",
        str(place.max_num_seqs),
        "--max-num-batched-tokens",
        str(place.max_num_batched_tokens),
    )


def _served_name(deployment: Deployment) -> tuple[str, str]:
    return "--served-model-name", deployment.model.served_name or deployment.model.name


def _fraction(value: float) -> str:
    return f"{value:.4f}".rstrip("0")
