"""What fits into the memory of one GPU."""

import math

from hyperpod_dpd.catalog.calibration import MEMORY, MemoryCalibration
from hyperpod_dpd.catalog.instances import Gpu
from hyperpod_dpd.spec.value import record

GIB = 1024**3


def reserve_bytes(tensor_parallel: int, calibration: MemoryCalibration = MEMORY) -> int:
    """Return what vLLM needs inside its share besides weights and KV cache: activations, graphs, NCCL, context."""
    non_torch = calibration.non_torch_gib if tensor_parallel > 1 else calibration.non_torch_single_gib
    return round((calibration.activation_gib + non_torch) * GIB)


def max_gpu_memory_utilization(
    gpu: Gpu, pd_buffer_bytes: int, calibration: MemoryCalibration = MEMORY
) -> float:
    """Return the largest `gpu_memory_utilization` beside a PD buffer, which lies outside vLLM's share.

    Not positive when the buffer alone does not fit.
    """
    hbm_bytes = gpu.hbm_gib * GIB
    return 1 - (pd_buffer_bytes + calibration.beside_buffer_gib * GIB) / hbm_bytes


def default_gpu_memory_utilization(
    gpu: Gpu, pd_buffer_bytes: int, calibration: MemoryCalibration = MEMORY
) -> float:
    """Return the `gpu_memory_utilization` to configure when the deployment names none, in whole per cent.

    It keeps clear of the ceiling for share and buffer together, and never exceeds what is usual without a buffer.
    """
    room = calibration.ceiling - pd_buffer_bytes / (gpu.hbm_gib * GIB)
    # a hundredth of a per cent keeps 0.9 from becoming 0.89 by a rounding error
    return min(calibration.usual_utilization, math.floor(room * 100 + 1e-4) / 100)


@record
class MemoryFit:
    """Memory of one GPU, divided up."""

    hbm_bytes: int
    """Usable memory of the GPU."""

    gpu_memory_utilization: float
    """Share of it for vLLM."""

    weights_bytes: int
    reserve_bytes: int
    """Activations, CUDA graphs, NCCL and the CUDA context inside vLLM's share."""

    pd_buffer_bytes: int
    """PD buffer beside vLLM's share."""

    beside_buffer_bytes: int
    """What must stay free beside share and buffer."""

    kv_bytes_per_token: int
    """KV cache of one token on this rank."""

    sequence_tokens: int
    """Longest sequence."""

    @property
    def share_bytes(self) -> int:
        """Memory that vLLM may use."""
        return math.floor(self.gpu_memory_utilization * self.hbm_bytes)

    @property
    def kv_bytes(self) -> int:
        """Room for the KV cache; negative when not even the weights fit."""
        return self.share_bytes - self.weights_bytes - self.reserve_bytes

    @property
    def kv_tokens(self) -> int:
        """Tokens of KV cache; 0 when nothing is left."""
        return max(0, self.kv_bytes // self.kv_bytes_per_token)

    @property
    def sequence_bytes(self) -> int:
        """KV cache of one sequence of full length."""
        return self.sequence_tokens * self.kv_bytes_per_token

    @property
    def needed_bytes(self) -> int:
        """Least memory with which the worker can serve one sequence of full length."""
        return self.weights_bytes + self.reserve_bytes + self.sequence_bytes + self.pd_buffer_bytes

    @property
    def free_bytes(self) -> int:
        """Memory beside vLLM's share and the PD buffer; negative when they overlap."""
        return self.hbm_bytes - self.share_bytes - self.pd_buffer_bytes

    @property
    def holds_a_sequence(self) -> bool:
        """Whether vLLM's share holds weights, reserve and one sequence of full length."""
        return self.kv_bytes >= self.sequence_bytes

    @property
    def leaves_room_beside(self) -> bool:
        """Whether the PD buffer fits beside vLLM's share; without a buffer there is nothing to fit."""
        return self.pd_buffer_bytes == 0 or self.free_bytes >= self.beside_buffer_bytes

    @property
    def fits(self) -> bool:
        """Whether such a worker starts and serves."""
        return self.holds_a_sequence and self.leaves_room_beside


def memory_fit(
    gpu: Gpu,
    *,
    weights_bytes: int,
    kv_bytes_per_token: int,
    sequence_tokens: int,
    tensor_parallel: int,
    gpu_memory_utilization: float,
    pd_buffer_bytes: int = 0,
    calibration: MemoryCalibration = MEMORY,
) -> MemoryFit:
    """Divide the memory of one GPU of a worker.

    Args:
        gpu: the accelerator.
        weights_bytes: weights of one rank.
        kv_bytes_per_token: KV cache of one token on one rank.
        sequence_tokens: longest sequence, prompt and answer.
        tensor_parallel: ranks; NCCL takes its part from two on.
        gpu_memory_utilization: share of the memory for vLLM.
        pd_buffer_bytes: PD buffer of one rank; 0 for a colocated worker.
        calibration: constants with their source.
    """
    return MemoryFit(
        hbm_bytes=math.floor(gpu.hbm_gib * GIB),
        gpu_memory_utilization=gpu_memory_utilization,
        weights_bytes=weights_bytes,
        reserve_bytes=reserve_bytes(tensor_parallel, calibration),
        pd_buffer_bytes=pd_buffer_bytes,
        beside_buffer_bytes=round(calibration.beside_buffer_gib * GIB),
        kv_bytes_per_token=kv_bytes_per_token,
        sequence_tokens=sequence_tokens,
    )
