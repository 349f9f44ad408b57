"""Measured constants: memory that engines take, transfers over EFA, and how long an engine step takes."""

from dataclasses import dataclass

from hyperpod_dpd.catalog.row import Source


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
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
