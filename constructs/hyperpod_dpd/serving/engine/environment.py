"""Environment of a worker's container."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.derive import ServingFacts
from hyperpod_dpd.serving.engine.lmcache import LMCACHE_FILE, lmcache_config_path
from hyperpod_dpd.serving.engine.ports import SIDE_CHANNEL_PORT
from hyperpod_dpd.serving.engine.values import EnvironmentVariable
from hyperpod_dpd.serving.names import CONFIG_DIRECTORY, STATE_DIRECTORY
from hyperpod_dpd.spec import Deployment, HuggingFaceSource, Role, S3Source

CACHE_DIRECTORY: Final = "/var/cache/dpd"
"""Home of the engine's process: model hub, compiled kernels, everything that a library caches in `~`."""

METRICS_DIRECTORY: Final = "/tmp/prometheus"  # noqa: S108 - a directory of the pod's own
"""Where the processes of an engine meet to add up LMCache's metrics; emptied at every start."""

HUNG_STEP_SECONDS: Final = 120
"""A step of LMCache < 0.4.5 that takes longer waits for a decoder that is gone: the engine ends and is restarted.

The longest prefill takes seconds, the first step of an engine with its compilation and handshakes some tens of them,
and the wait inside the step has no limit of its own. vLLM's own default is 300.
"""


def environment(deployment: Deployment, facts: ServingFacts, role: Role) -> tuple[EnvironmentVariable, ...]:
    """Return the environment of a worker of `role`."""
    variables = _literals(_process(deployment, role))
    if role is not Role.COLOCATED:
        variables += _literals(_hand_off(deployment, facts, role))
        if deployment.serving.transfer.type == "nixl":
            # advertised to the other side, so neither `localhost` nor `0.0.0.0` will do
            variables.append(
                EnvironmentVariable(name="VLLM_NIXL_SIDE_CHANNEL_HOST", field_path="status.podIP")
            )
        variables += _literals(sorted((deployment.serving.worker(role).environment or {}).items()))
    return tuple(variables)


def _literals(pairs: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> list[EnvironmentVariable]:
    return [EnvironmentVariable(name=name, value=value) for name, value in pairs]


def _process(deployment: Deployment, role: Role) -> Iterator[tuple[str, str]]:
    yield "HOME", CACHE_DIRECTORY
    # nobody's prompt statistics leave the account, and a closed network does not wait for them
    yield "VLLM_NO_USAGE_STATS", "1"
    yield "DO_NOT_TRACK", "1"
    yield "VLLM_WORKER_MULTIPROC_METHOD", "spawn"
    yield "PYTHONHASHSEED", str(deployment.serving.transfer.hash_seed)
    # the interface of EKS Pod Identity leads nowhere else
    yield "NCCL_SOCKET_IFNAME", "^lo,docker,pod-id-link0"
    if deployment.routing.tracing_endpoint is not None:
        # vLLM's own default is gRPC
        yield "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"
        yield "OTEL_SERVICE_NAME", f"vllm-{role.value}"
    source = deployment.model.source
    if isinstance(source, S3Source):
        yield "AWS_REGION", deployment.region
    if not isinstance(source, HuggingFaceSource):
        yield "HF_HUB_OFFLINE", "1"


def _hand_off(deployment: Deployment, facts: ServingFacts, role: Role) -> Iterator[tuple[str, str]]:
    serving = deployment.serving
    yield "FI_PROVIDER", "efa"
    yield "FI_EFA_USE_DEVICE_RDMA", "1"
    # shared memory between the processes of a node corrupts GPU buffers (ai-dynamo/dynamo PR 9712)
    yield "FI_EFA_ENABLE_SHM_TRANSFER", "0"
    # without reserved pages libfabric must not ask for any, or fork fails
    yield "FI_EFA_USE_HUGE_PAGE", "1" if serving.huge_pages_mib else "0"
    if serving.transfer.type == "nixl":
        yield "VLLM_NIXL_SIDE_CHANNEL_PORT", str(SIDE_CHANNEL_PORT)
        return
    # vLLM's second model runner, its default for dense models since 0.25, replays a full CUDA graph outside of the
    # context from which LMCache's connector reads the attention metadata: the load is skipped without a word, the hit
    # is still reported, the answer comes from unwritten memory and every chunk of the buffer leaks (measured, H14)
    yield "VLLM_USE_V2_MODEL_RUNNER", "0"
    yield "LMCACHE_CONFIG_FILE", lmcache_config_path(role)
    yield "LMCACHE_TRACK_USAGE", "false"
    yield "PROMETHEUS_MULTIPROC_DIR", METRICS_DIRECTORY
    if role is Role.PREFILL and not facts.engine.transfers_asynchronously:
        yield "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", str(HUNG_STEP_SECONDS)
    if role is Role.DECODE:
        kv = facts.decode_ports
        yield "DPD_STATE_DIRECTORY", STATE_DIRECTORY
        yield "DPD_LMCACHE_TEMPLATE", f"{CONFIG_DIRECTORY}/{LMCACHE_FILE}"
        yield "DPD_TENSOR_PARALLEL", str(kv.tensor_parallel)
        yield "DPD_PORT_EPOCHS", str(kv.epochs)
        yield "DPD_INIT_PORT_BASE", str(kv.init_base)
        yield "DPD_ALLOC_PORT_BASE", str(kv.alloc_base)
