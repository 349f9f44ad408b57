"""Measured constants: memory that engines take, transfers over EFA, and how long an engine step takes."""

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record


@record
class MemoryCalibration:
    """Memory of one GPU that is neither weights nor KV cache."""

    activation_gib: float
    """Peak activations and CUDA graphs."""

    non_torch_gib: float
    """CUDA context and NCCL with at least two tensor-parallel ranks."""

    non_torch_single_gib: float
    """CUDA context of a single rank."""

    beside_buffer_gib: float
    """What must stay free beside vLLM's share and the PD buffer."""

    ceiling: float
    """Share of the memory that vLLM's share and the PD buffer may take together."""

    usual_utilization: float
    """`gpu_memory_utilization` without a PD buffer."""

    source: Source


MEMORY = MemoryCalibration(
    activation_gib=1.89,
    non_torch_gib=2.10,
    non_torch_single_gib=0.5,
    beside_buffer_gib=1.0,
    ceiling=0.97,
    usual_utilization=0.90,
    source=Source(
        text="llm-d-planner 0.3.3, measured with vLLM 0.19 on H100 (aiconfigurator-core 0.12.0 agrees within 0.6 GiB in "
        "total; single-rank context inferred); ceiling from LMCache#1251 and AWS's 0.75 beside 8 GiB on 80 GB",
        as_of="2026-11-30",
        confirmed=False,
    ),
)


@record
class TransferCalibration:
    """KV transfer between GPUs of two nodes over EFA with NIXL's LIBFABRIC backend."""

    efficiency: float
    """Expected share of the line rate."""

    worst_efficiency: float
    best_efficiency: float

    not_on_efa_efficiency: float
    """Below this share the traffic is not on EFA at all."""

    fixed_seconds: float
    """Handshake and completion of one transfer."""

    source: Source


TRANSFER = TransferCalibration(
    efficiency=0.6,
    worst_efficiency=0.4,
    best_efficiency=0.9,
    not_on_efa_efficiency=0.05,
    fixed_seconds=0.002,
    source=Source(
        text="arXiv 2510.27656 (400 Gbps per GPU on p5 and p5en), Mooncake PRs 1509 (43 %) and 3888 (68 %); "
        "no measurement of LMCache's 10 MB chunks on p5 is public",
        as_of="2026-11-30",
        confirmed=False,
    ),
)


@record
class StepCalibration:
    """Constants of the step-time model: which share of the datasheet a step reaches, and what it always costs."""

    name: str

    memory_efficiency: float
    """Share of the memory bandwidth at which weights are streamed."""

    cache_efficiency: float
    """Share of the memory bandwidth at which decode attention reads the KV cache."""

    bf16_efficiency: float
    """Share of the dense BF16 rate that matrix multiplications of a prefill reach."""

    fp8_efficiency: float
    """Share of the dense FP8 rate, quantizing of activations included."""

    attention_efficiency: float
    """Share of the dense BF16 rate that prefill attention reaches."""

    layer_seconds: float
    """What a layer takes beyond its roofline: kernels that start, norms, rotary embedding."""

    fp8_layer_seconds: float
    """What a layer takes in addition when activations are quantized."""

    launch_layer_seconds: float
    """What the host takes to launch the kernels of a layer one by one. A step for whose size no CUDA graph was captured is
    at least as long as all its layers; longer kernels hide it."""

    sequence_seconds: float
    """Host work per sequence of a step that nothing overlaps."""

    all_reduce_bus_bytes_per_second: float
    """Bus bandwidth of a large all-reduce over NVLink."""

    all_reduce_seconds: float
    """What an all-reduce takes whatever its size."""

    source: Source


MEASURED = StepCalibration(
    name="measured",
    memory_efficiency=0.80,
    cache_efficiency=0.80,
    bf16_efficiency=0.597,
    fp8_efficiency=0.478,
    attention_efficiency=0.604,
    layer_seconds=38.8e-6,
    fp8_layer_seconds=15e-6,
    launch_layer_seconds=42.4e-3 / 80,
    sequence_seconds=8e-6,
    all_reduce_bus_bytes_per_second=370e9,
    all_reduce_seconds=8.7e-6,
    source=Source(
        text="layer, BF16 and attention: `tools/calibrate.py` on `prefill_alone` and `decode_step` of one H200 with "
        "vLLM 0.25.1 (one rank of Llama 3.3 70B at TP8). FP8 and all-reduce: kernel tables of vLLM 0.24.0 in "
        "aiconfigurator-core 0.12.0 (TP8 decode 9.4 against 8.4 ms and 11.4 against 9.5 ms; TP2 prefill 467 against "
        "304 ms; 52 ms of all-reduces in a step of 4,096 tokens). Memory and cache at 80 %: usual for streaming "
        "kernels, not fitted. Host work per sequence: set before, not fitted; the decode series is too short for it. "
        "Launching: a decoder answers a prompt of 1,024 tokens after 54.3 ms (median of 8, docs/evidence/"
        "h200-handoff-strategies.md), 42.4 without request and router, where its kernels need 33; other hosts: at most "
        "34 ms, and 57",
        as_of="2026-11-30",
    ),
)

PUBLIC = StepCalibration(
    name="public",
    memory_efficiency=0.60,
    cache_efficiency=0.60,
    bf16_efficiency=0.85,
    fp8_efficiency=0.85,
    attention_efficiency=0.595,
    layer_seconds=5.5e-3 / 80,
    fp8_layer_seconds=0.0,
    launch_layer_seconds=0.0,
    sequence_seconds=0.0,
    all_reduce_bus_bytes_per_second=437.5e9,
    all_reduce_seconds=0.0,
    source=Source(
        text="fitted to the 20 TP8 FP8 points of Llama 3.1 70B that aiconfigurator-core 0.12.0 ships as measured "
        "(InferenceX-type runs of 2025-10-29 on H100 and H200); none of our measurements in it",
        as_of="2026-11-30",
    ),
)


@record
class HandOffCalibration:
    """What happens around a step: HTTP in front of an engine, the router's hop, LMCache's copies."""

    request_seconds: float
    """An engine's API server, per request: connection, validation, inter-process messages."""

    request_seconds_per_token: float
    """The same, per prompt token."""

    router_seconds: float
    """One pass through the router."""

    store_bytes_per_second: float
    """Sender's copy from the KV cache into the PD buffer, inside the forward pass, per rank."""

    retrieve_bytes_per_second: float
    """Receiver's copy from the PD buffer into the KV cache, inside the forward pass, per rank."""

    source: Source


HAND_OFF = HandOffCalibration(
    request_seconds=6.4e-3,
    request_seconds_per_token=0.5e-6,
    router_seconds=5e-3,
    store_bytes_per_second=4096 * 40960 / 18.6e-3,
    retrieve_bytes_per_second=3840 * 40960 / 17e-3,
    source=Source(
        text="H200 with vLLM 0.25.1 and LMCache 0.5.3: requests `tools/calibrate.py` on `prefill_alone`; copies "
        "`Stored 4096 … cost`, median 18.6 ms of 1,200 under load on two GPUs (9.7 ms in one earlier run on one GPU), and "
        "`Retrieved 3840 out of 3840 … cost 16-18 ms` at 40,960 bytes a token. "
        "Seconds per prompt token and router: set before, not fitted",
        as_of="2026-11-30",
    ),
)
