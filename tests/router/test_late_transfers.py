"""A transfer that takes its chunks only after the router has drained it is drained again."""

import pytest

from dpd_simulator import EngineConfig, Fault, FaultKind, LMCacheConfig
from tests.router.support import LIMIT_SECONDS, Rig, prompt, running, until

IMPATIENT = ("--notification-timeout-seconds", "0.05", "--drain-grace-seconds", "0.05")


async def _until_drained(rig: Rig, result: str) -> None:
    await until(lambda: rig.metric("dpd_router_drains_total", result=result) > 0)


@pytest.mark.parametrize("ranks", [1, 4])
async def test_a_transfer_after_its_drain_is_drained_again(ranks: int) -> None:
    engine = EngineConfig(tensor_parallel_size=ranks)
    ports = LMCacheConfig(allocation_timeout_seconds=LIMIT_SECONDS)
    async with running(*IMPATIENT, engine=engine, lmcache=ports) as rig:
        (decoder,) = rig.cluster.decoders
        await decoder.add_fault(Fault(kind=FaultKind.BUFFER_FULL))
        answer = await rig.complete(prompt(900), max_tokens=3)
        assert answer.status == 200
        await _until_drained(rig, "empty")
        await rig.settled()
        await decoder.remove_faults()
        await _until_drained(rig, "late")
        await rig.settled()
        assert decoder.used_chunks == (0,) * ranks
        assert decoder.reserved_chunks == (0,) * ranks


async def test_a_late_transfer_that_cannot_be_drained_is_suspected() -> None:
    ports = LMCacheConfig(allocation_timeout_seconds=LIMIT_SECONDS)
    async with running(*IMPATIENT, lmcache=ports) as rig:
        (decoder,) = rig.cluster.decoders
        await decoder.add_fault(Fault(kind=FaultKind.BUFFER_FULL))
        assert (await rig.complete(prompt(900), max_tokens=3)).status == 200
        await _until_drained(rig, "empty")
        await rig.settled()
        await decoder.add_fault(Fault(kind=FaultKind.ERROR_STATUS, status=500))
        await decoder.remove_faults(FaultKind.BUFFER_FULL)
        await _until_drained(rig, "failed")
        assert rig.metric("dpd_router_suspected_chunks") == 4
