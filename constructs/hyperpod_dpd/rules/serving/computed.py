"""What this project computes for a worker; a deployment that says it again could only contradict it."""

from typing import Final

COMPUTED_FLAGS: Final = frozenset(
    {
        "--block-size",
        "--disable-access-log-for-endpoints",
        "--disable-fastapi-docs",
        "--dtype",
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        "--enforce-eager",
        "--gpu-memory-utilization",
        "--host",
        "--kv-cache-dtype",
        "--kv-transfer-config",
        "--load-format",
        "--max-model-len",
        "--max-num-batched-tokens",
        "--max-num-seqs",
        "--no-enable-prefix-caching",
        "--otlp-traces-endpoint",
        "--port",
        "--revision",
        "--served-model-name",
        "--shutdown-timeout",
        "--tensor-parallel-size",
        "--tokenizer-revision",
        "--trust-remote-code",
    }
)
"""Flags that the engine configuration renders, in one deployment or another."""

COMPUTED_FLAG_VARIANTS: Final = {
    "--api-key": "the router asks without one, and network policies guard the workers",
    "--api-server-count": "one server holds the router's view of the worker",
    "--config": "a file could say anything again",
    "--data-parallel-size": "a worker is one tensor-parallel group",
    "--decode-context-parallel-size": "a worker is one tensor-parallel group",
    "--disable-log-stats": "dashboards and alerts read the statistics",
    "--grpc": "the router speaks HTTP",
    "--headless": "the router talks to the worker's server",
    "--kv-offloading-backend": "it replaces the KV connector",
    "--kv-offloading-size": "it replaces the KV connector",
    "--model": "the model comes from `model`",
    "--nnodes": "a worker has one node",
    "--no-enable-prompt-tokens-details": "the router measures every hand-off by these details",
    "--no-enforce-eager": "`enforce_eager` says it",
    "--no-trust-remote-code": "`model.trust_remote_code` says it",
    "--pipeline-parallel-size": "a worker is one tensor-parallel group",
    "--prefill-context-parallel-size": "a worker is one tensor-parallel group",
    "--quantization": "the checkpoint says its quantization, `model.weights` what fits",
    "--root-path": "probes and router ask at the root",
    "--skip-tokenizer-init": "the router lets workers tokenize",
    "--ssl-certfile": "probes and router speak HTTP inside the cluster",
    "--ssl-keyfile": "probes and router speak HTTP inside the cluster",
    "--uds": "the router talks to the worker's port",
    "-dcp": "a worker is one tensor-parallel group",
    "-dp": "a worker is one tensor-parallel group",
    "-n": "a worker has one node",
    "-pcp": "a worker is one tensor-parallel group",
    "-pp": "a worker is one tensor-parallel group",
    "-q": "the checkpoint says its quantization, `model.weights` what fits",
    "-tp": "`serving.tensor_parallel` says it",
}
"""Other spellings and neighbours of them, with the reason for which they are refused."""

COMPUTED_ENVIRONMENT: Final = frozenset(
    {
        "AWS_REGION",
        "DO_NOT_TRACK",
        "DPD_ALLOC_PORT_BASE",
        "DPD_INIT_PORT_BASE",
        "DPD_LMCACHE_TEMPLATE",
        "DPD_PORT_EPOCHS",
        "DPD_STATE_DIRECTORY",
        "DPD_TENSOR_PARALLEL",
        "FI_EFA_ENABLE_SHM_TRANSFER",
        "FI_EFA_USE_DEVICE_RDMA",
        "FI_EFA_USE_HUGE_PAGE",
        "FI_PROVIDER",
        "HF_HUB_OFFLINE",
        "HOME",
        "LMCACHE_CONFIG_FILE",
        "LMCACHE_TRACK_USAGE",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_SERVICE_NAME",
        "PROMETHEUS_MULTIPROC_DIR",
        "PYTHONHASHSEED",
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS",
        "VLLM_USE_V2_MODEL_RUNNER",
        "VLLM_NIXL_SIDE_CHANNEL_HOST",
        "VLLM_NIXL_SIDE_CHANNEL_PORT",
        "VLLM_NO_USAGE_STATS",
        "VLLM_WORKER_MULTIPROC_METHOD",
    }
)
"""Variables that the engine configuration renders and that nobody may render again."""

COMPUTED_LMCACHE_KEYS: Final = frozenset(
    {
        "chunk_size",
        "enable_pd",
        "nixl_backends",
        "pd_allocation_timeout_sec",
        "pd_backend_mode",
        "pd_buffer_device",
        "pd_buffer_size",
        "pd_max_prefill_len",
        "pd_peer_alloc_port",
        "pd_peer_host",
        "pd_peer_init_port",
        "pd_proxy_host",
        "pd_proxy_port",
        "pd_role",
        "save_unfull_chunk",
        "transfer_channel",
    }
)
"""LMCache keys of the rendered file; `LMCACHE_<KEY>` in the environment would win over it."""
