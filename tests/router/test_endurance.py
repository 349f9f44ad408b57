"""Ten thousand requests through a small buffer, with clients that leave, lost notifications and a restart."""

import asyncio
import dataclasses
import random

import aiohttp
import pytest

from dpd_simulator import EngineConfig, Fault, FaultKind, LMCacheConfig, SimulatedEngine
from tests.router.support import Rig, prompt, running

REQUESTS = 10_000
CONCURRENCY = 24
LEAVE = 0.20
LOST = 0.02
LIMIT_SECONDS = 60


async def _request(rig: Rig, number: int) -> str:
    """Send one request of random length; the result says how it ended."""
    generator = random.Random(number)
    fields = {
        "model": "m",
        "prompt": prompt(int(2 ** generator.uniform(6, 11.5)), number),
        "max_tokens": generator.randint(2, 12),
        "temperature": 0,
        "ignore_eos": True,
        "stream": generator.random() < 0.7,
    }
    leaves_after = generator.uniform(0, 0.15) if generator.random() < LEAVE else None
    try:
        async with asyncio.timeout(LIMIT_SECONDS if leaves_after is None else leaves_after):
            async with rig.session.post(rig.base + "/v1/completions", json=fields) as response:
                raw = await response.read()
    except TimeoutError:
        return "hung" if leaves_after is None else "left"
    except aiohttp.ClientError:
        return "broken"
    if response.status != 200:
        return str(response.status)
    return "failed" if b'"error"' in raw else "answered"


async def _restart_in_another_epoch(decoder: SimulatedEngine, epoch: int) -> None:
    """Kill a decoder and start it at the same address with the ports of its next boot."""
    lmcache = decoder.config.lmcache
    assert lmcache is not None
    ports = dataclasses.replace(lmcache, init_ports=(7300 + epoch,), alloc_ports=(7400 + epoch,))
    await decoder.restart(
        dataclasses.replace(decoder.config, lmcache=ports, served_model_names=("m", f"dpd-epoch-{epoch}"))
    )


@pytest.mark.slow
async def test_nothing_leaks_and_nothing_hangs() -> None:
    engine = EngineConfig(served_model_names=("m", "dpd-epoch-0"))
    lmcache = LMCacheConfig(allocation_timeout_seconds=0.5)
    assert lmcache.total_chunks == 102  # 1 GiB
    flags = (
        "--threshold", "512",
        "--drain-grace-seconds", "3",
        "--buffer-wait-seconds", "0.2",
        # many are waited for in vain
        "--notification-timeout-seconds", "15",
    )  # fmt: skip
    async with running(*flags, prefill=2, decode=2, engine=engine, lmcache=lmcache) as rig:
        await rig.cluster.add_fault(
            Fault(kind=FaultKind.NOTIFICATION_LOST, probability=LOST), rig.cluster.prefillers
        )
        ends: dict[str, int] = {}
        limit = asyncio.Semaphore(CONCURRENCY)

        a_third_is_done = asyncio.Event()

        async def one(number: int) -> None:
            async with limit:
                end = await _request(rig, number)
                ends[end] = ends.get(end, 0) + 1
                if sum(ends.values()) == REQUESTS // 3:
                    a_third_is_done.set()

        async def restart() -> None:
            await a_third_is_done.wait()
            await _restart_in_another_epoch(rig.cluster.decoders[0], 1)

        async with asyncio.TaskGroup() as group:
            group.create_task(restart())
            for number in range(REQUESTS):
                group.create_task(one(number))
        await rig.settled()
        await rig.cluster.remove_faults()

        assert ends.get("hung", 0) == 0
        # only requests that were inside the decoder when it was killed may break after their first byte
        assert ends.get("broken", 0) + ends.get("failed", 0) <= CONCURRENCY, ends
        assert ends.get("503", 0) == 0, ends
        assert sum(ends.values()) == REQUESTS
        assert ends["answered"] > 0.75 * REQUESTS
        assert rig.used_chunks() == [(0,), (0,)]
        assert [decoder.reserved_chunks for decoder in rig.cluster.decoders] == [(0,), (0,)]
        assert rig.metric("dpd_router_decisions_total", decision="disaggregated") > REQUESTS / 10
