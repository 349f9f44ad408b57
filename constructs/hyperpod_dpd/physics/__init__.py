"""Memory, KV cache, PD buffer, transfer and devices: pure arithmetic that rules, rendering and plan share.

Every function takes catalog rows and plain numbers and returns plain numbers or a frozen value. Nothing here reads a
file, knows a deployment, or rounds for display.
"""

from hyperpod_dpd.physics.buffer import PdBuffer, chunk_bytes_per_rank, worst_case_in_flight_bytes
from hyperpod_dpd.physics.devices import efa_devices, line_rate_bytes_per_second
from hyperpod_dpd.physics.kv import kv_bytes_per_token, kv_bytes_per_token_per_rank, kv_heads_per_rank
from hyperpod_dpd.physics.memory import (
    GIB,
    MemoryFit,
    default_gpu_memory_utilization,
    max_gpu_memory_utilization,
    memory_fit,
    reserve_bytes,
)
from hyperpod_dpd.physics.transfer import Band, efficiency_band, transfer_seconds, transfer_seconds_band
from hyperpod_dpd.physics.weights import (
    Parameters,
    UnshardableError,
    parameters,
    parameters_per_rank,
    refuse_unless_shardable,
    tensor_parallel_degrees,
    weights_bytes_per_rank,
)

__all__ = [
    "GIB",
    "Band",
    "MemoryFit",
    "Parameters",
    "PdBuffer",
    "UnshardableError",
    "chunk_bytes_per_rank",
    "default_gpu_memory_utilization",
    "efa_devices",
    "efficiency_band",
    "kv_bytes_per_token",
    "kv_bytes_per_token_per_rank",
    "kv_heads_per_rank",
    "line_rate_bytes_per_second",
    "max_gpu_memory_utilization",
    "memory_fit",
    "parameters",
    "parameters_per_rank",
    "refuse_unless_shardable",
    "reserve_bytes",
    "tensor_parallel_degrees",
    "transfer_seconds",
    "transfer_seconds_band",
    "weights_bytes_per_rank",
    "worst_case_in_flight_bytes",
]
