"""Keep a router busy for a long time and see whether anything grows: memory, tasks, sockets, hand-offs, chunks.

The router runs in a process of its own; two simulated prefillers and two decoders with 1 GiB buffers and the clients
run in this one. A fifth of the clients leave early, one notification in fifty is lost, and a decoder is killed and
started again at the same address, with the ports of its next boot, every five minutes. At the end the load stops, the
router settles, and what is left is compared with what it had after the first minute.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import json
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "router"), str(ROOT / "router" / "simulator")]

import aiohttp  # noqa: E402 - the two packages beside are not installed

from dpd_router.config import load  # noqa: E402
from dpd_router.router import Router  # noqa: E402
from dpd_simulator import EngineConfig, Fault, FaultKind, LMCacheConfig, SimulatedCluster  # noqa: E402

CLIENTS = 16
LEAVE = 0.20
LOST = 0.02
SAMPLE_SECONDS = 5.0
# Longer than the router and the workers keep idle connections.
IDLE_SECONDS = 8.0
FILE_SAMPLES = 10
FILE_SAMPLE_SECONDS = 0.05
RESTART_SECONDS = 300.0
GROWTH_LIMIT_MIB_PER_HOUR = 4.0
ANSWER_LIMIT_SECONDS = 60


async def serve(flags: Sequence[str]) -> None:
    """The router process: a line of numbers on standard output every few seconds, until standard input ends."""
    router = Router(load(flags, {}), {})
    await router.start()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    asked = asyncio.create_task(reader.readline())
    while True:
        done, _ = await asyncio.wait({asked}, timeout=SAMPLE_SECONDS)
        if done and asked.result() == b"":
            break
        if done:
            await router.custodian.settle_all(30)
            await asyncio.sleep(IDLE_SECONDS)
            gc.collect()
            asked = asyncio.create_task(reader.readline())
        sample = {
            "memory_mib": _resident_mib(),
            "tasks": len(asyncio.all_tasks()),
            "files": await _open_files(),
            "handoffs": len(router.custodian.handoffs),
            "settled": bool(done),
        }
        print(json.dumps(sample), flush=True)
    await router.stop()


async def _open_files() -> int:
    """The fewest within a moment: a health check that is under way has a connection of its own."""
    counts = []
    for _ in range(FILE_SAMPLES):
        counts.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208 - names are enough
        await asyncio.sleep(FILE_SAMPLE_SECONDS)
    return min(counts)


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Soak:
    """The load, the engines and the samples."""

    def __init__(self, cluster: SimulatedCluster, session: aiohttp.ClientSession, url: str) -> None:
        self._cluster = cluster
        self._session = session
        self._url = url
        self._until = 0.0
        self.ends: Counter[str] = Counter()

    async def run(self, seconds: float) -> None:
        """Load until the time is over."""
        self._until = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            restarts = group.create_task(self._restart_now_and_then())
            clients = [group.create_task(self._client(number)) for number in range(CLIENTS)]
            await asyncio.wait(clients)
            restarts.cancel()

    async def _client(self, number: int) -> None:
        generator = random.Random(number)
        while time.monotonic() < self._until:
            self.ends[await self._request(generator)] += 1

    async def _request(self, generator: random.Random) -> str:
        fields = {
            "model": "m",
            "prompt": [generator.randint(400, 15_000) for _ in range(int(2 ** generator.uniform(6, 12)))],
            "max_tokens": generator.randint(2, 24),
            "temperature": 0,
            "stream": generator.random() < 0.7,
        }
        leaves_after = generator.uniform(0, 0.1) if generator.random() < LEAVE else None
        try:
            async with (
                asyncio.timeout(leaves_after or ANSWER_LIMIT_SECONDS),
                self._session.post(self._url + "/v1/completions", json=fields) as response,
            ):
                raw = await response.read()
        except TimeoutError:
            return "hung" if leaves_after is None else "left"
        except aiohttp.ClientError:
            return "broken"
        return "answered" if response.status == 200 and b'"error"' not in raw else f"failed {response.status}"

    async def _restart_now_and_then(self) -> None:
        epoch = 0
        while True:
            await asyncio.sleep(RESTART_SECONDS)
            decoder = self._cluster.decoders[epoch % 2]
            epoch += 1
            lmcache = decoder.config.lmcache
            assert lmcache is not None
            turn = epoch % 8
            ports = dataclasses.replace(lmcache, init_ports=(7300 + turn,), alloc_ports=(7400 + turn,))
            await decoder.restart(
                dataclasses.replace(
                    decoder.config, lmcache=ports, served_model_names=("m", f"dpd-epoch-{turn}")
                )
            )


@contextlib.asynccontextmanager
async def router_process(cluster: SimulatedCluster) -> AsyncIterator[asyncio.subprocess.Process]:
    """The router, until the block ends."""
    flags = {
        "--host": cluster.router_host,
        "--port": "8081",
        "--notification-host": cluster.router_host,
        "--prefillers": ",".join(engine.url for engine in cluster.prefillers),
        "--decoders": ",".join(engine.url for engine in cluster.decoders),
        "--decoder-buffer-chunks": "102",
        "--threshold": "512",
        "--notification-timeout-seconds": "2",
        "--drain-grace-seconds": "12",
        "--health-interval-seconds": "0.5",
        "--log-level": "error",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        "--serve",
        *(item for pair in flags.items() for item in pair),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


class Samples:
    """What the router says about itself."""

    def __init__(self) -> None:
        self.all: list[dict[str, float]] = []
        self._settled: asyncio.Queue[dict[str, float]] = asyncio.Queue()

    async def collect(self, process: asyncio.subprocess.Process) -> None:
        """Read until the router ends."""
        assert process.stdout is not None
        while line := await process.stdout.readline():
            sample = json.loads(line) | {"at": time.monotonic()}
            self.all.append(sample)
            if sample["settled"]:
                self._settled.put_nowait(sample)

    async def settled(self) -> dict[str, float]:
        """The sample that follows a request to settle."""
        return await self._settled.get()


async def settle(process: asyncio.subprocess.Process, samples: Samples) -> dict[str, float]:
    """Ask the router to settle everything, and wait for its sample."""
    assert process.stdin is not None
    process.stdin.write(b"settle\n")
    return await samples.settled()


async def soak(seconds: float) -> int:
    """Run, print the figures, and return 1 if anything leaks."""
    lmcache = LMCacheConfig(allocation_timeout_seconds=2.0)
    engine = EngineConfig(served_model_names=("m", "dpd-epoch-0"))
    samples = Samples()
    async with (
        SimulatedCluster(prefill=2, decode=2, engine=engine, lmcache=lmcache) as cluster,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        router_process(cluster) as process,
    ):
        reading = asyncio.create_task(samples.collect(process))
        url = f"http://{cluster.router_host}:8081"
        await _ready(session, url)
        await cluster.add_fault(Fault(kind=FaultKind.NOTIFICATION_LOST, probability=LOST), cluster.prefillers)
        load = Soak(cluster, session, url)
        await load.run(min(60.0, seconds / 5))
        await session.close()
        before = await settle(process, samples)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as second:
            main_load = Soak(cluster, second, url)
            started = time.monotonic()
            await main_load.run(seconds)
        after = await settle(process, samples)
        await cluster.remove_faults()
        chunks = [decoder.used_chunks[0] for decoder in cluster.decoders]
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return _report(
        Outcome(
            minutes=seconds / 60,
            ends=main_load.ends,
            before=before,
            after=after,
            chunks=chunks,
            steady=[sample for sample in samples.all if sample["at"] > started + seconds / 3],
        )
    )


async def _ready(session: aiohttp.ClientSession, url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get(url + "/ready") as response:
                if response.status == 200:
                    return
        await asyncio.sleep(0.2)
    sys.exit("error: the router is not ready after 60 seconds")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a soak has seen; samples are of the settled router, `steady` ones of the busy one."""

    minutes: float
    ends: Counter[str]
    before: dict[str, float]
    after: dict[str, float]
    chunks: list[int]
    steady: list[dict[str, float]]

    @property
    def growth_mib_per_hour(self) -> float:
        """Slope of the memory over the last two thirds."""
        times = [sample["at"] for sample in self.steady]
        memory = [sample["memory_mib"] for sample in self.steady]
        return 3600 * statistics.linear_regression(times, memory).slope


def _report(seen: Outcome) -> int:
    growth = seen.growth_mib_per_hour
    before, after = seen.before, seen.after
    requests = sum(seen.ends.values())
    print(f"- length: {seen.minutes:.0f} minutes, {CLIENTS} clients, {requests} requests: {dict(seen.ends)}")
    print(
        f"- memory: {before['memory_mib']:.1f} MiB after the first minute, {after['memory_mib']:.1f} at the end"
    )
    print(
        f"- growth over the last two thirds: {growth:+.2f} MiB per hour (limit {GROWTH_LIMIT_MIB_PER_HOUR:g})"
    )
    print(f"- tasks when settled: {before['tasks']} then {after['tasks']}")
    print(f"- open files when settled: {before['files']} then {after['files']}")
    print(f"- hand-offs left: {after['handoffs']}; chunks left in the decoders: {seen.chunks}")
    broken = {
        "memory grows": growth > GROWTH_LIMIT_MIB_PER_HOUR,
        "tasks grow": after["tasks"] > before["tasks"],
        "sockets grow": after["files"] > before["files"],
        "hand-offs are left": after["handoffs"] > 0,
        "chunks are left": any(seen.chunks),
        "requests hung": seen.ends["hung"] > 0,
    }
    for name in (name for name, holds in broken.items() if holds):
        print(f"- FAILED: {name}")
    return int(any(broken.values()))


def main() -> int:
    """Run the soak, or the router process of one."""
    if sys.argv[1:2] == ["--serve"]:
        import uvloop  # noqa: PLC0415 - the router process only

        uvloop.run(serve(sys.argv[2:]))
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    return asyncio.run(soak(60 * parser.parse_args().minutes))


if __name__ == "__main__":
    sys.exit(main())
