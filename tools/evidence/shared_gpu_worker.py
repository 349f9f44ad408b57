"""A vLLM worker that computes on the first GPU whatever its rank, so that one GPU carries all ranks of an engine.

Only places where an engine computes and how its ranks add up are changed. Ranks, ports, sockets, notifications, keys and
books are those of an engine with a GPU a rank. Loaded by `--worker-cls`; needs vLLM and LMCache.
"""

from typing import Any

from lmcache.integration.vllm import utils  # type: ignore[import-not-found, unused-ignore]
from lmcache.v1.storage_backend import pd_backend_async  # type: ignore[import-not-found, unused-ignore]
from vllm.platforms import current_platform  # type: ignore[import-not-found, unused-ignore]
from vllm.v1.worker.gpu_worker import Worker  # type: ignore[import-not-found, unused-ignore]

_GPU = 0


class SharedGpuWorker(Worker):  # type: ignore[misc, unused-ignore]
    """Rank of an engine whose ranks share a GPU."""

    def init_device(self) -> None:
        """Take the first GPU, and gloo for the sums: NCCL refuses two ranks on one GPU."""
        self.local_rank = _GPU
        current_platform.dist_backend = "gloo"
        _place_lmcache()
        super().init_device()


def _place_lmcache() -> None:
    """Have LMCache, which takes a rank's number for the number of its GPU in three places, take the first GPU."""
    ranks_here = utils.calculate_local_rank_and_world_size
    device_of, channel = pd_backend_async.get_correct_device, pd_backend_async.CreateTransferChannel

    def transfer_channel(**arguments: Any) -> Any:
        # the channel's `tp_rank` is the GPU that NIXL registers the buffer with, and nothing else
        return channel(**{**arguments, "tp_rank": _GPU})

    utils.calculate_local_rank_and_world_size = lambda config: (_GPU, ranks_here(config)[1])
    pd_backend_async.get_correct_device = lambda device, _: device_of(device, _GPU)
    pd_backend_async.CreateTransferChannel = transfer_channel
