"""A router between simulated engines, for end-to-end tests."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from dpd_router.config import load
from dpd_router.pool import Role, Worker
from dpd_router.router import Router
from dpd_simulator import EngineConfig, LMCacheConfig, SimulatedCluster

# waits in tests end by an event; this only ends a test that would hang
LIMIT_SECONDS = 90
# limits of the router that a machine which stands still for a moment does not reach: what must come is not missed,
# and what does not come is waited for until `time_passes`
PATIENT_SECONDS = 60
# where not even that much time that passes may end something
NEVER_SECONDS = 3600


def time_passes(seconds: float) -> None:
    """Let everything that waits in this event loop find that so much time has passed."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclasses.dataclass(kw_only=True)
class Result:
    """What a client got."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        answer = json.loads(self.raw)
        assert isinstance(answer, dict)
        return answer

    @property
    def events(self) -> list[dict[str, Any]]:
        pieces = [line.removeprefix("data: ") for line in self.raw.decode().split("\n\n") if line]
        assert pieces.pop() == "[DONE]"
        return [json.loads(piece) for piece in pieces]

    @property
    def text(self) -> str:
        """All text, of a whole or a streamed answer."""
        if not self.raw.startswith(b"data:"):
            choice = self.body["choices"][0]
            return str(choice["text"] if "text" in choice else choice["message"]["content"])
        choices = [event["choices"][0] for event in self.events if event["choices"]]
        return "".join(c["text"] if "text" in c else c["delta"].get("content", "") for c in choices)

    @property
    def finish(self) -> tuple[Any, Any]:
        """Finish reason and stop reason."""
        if not self.raw.startswith(b"data:"):
            choice = self.body["choices"][0]
        else:
            (choice,) = [
                e["choices"][0] for e in self.events if e["choices"] and e["choices"][0]["finish_reason"]
            ]
        return choice["finish_reason"], choice["stop_reason"]

    @property
    def usage(self) -> dict[str, int] | None:
        """Token counts, without the details that tell how they were computed."""
        holder: dict[str, Any] = self.body if not self.raw.startswith(b"data:") else self.events[-1]
        usage = holder.get("usage")
        if usage is None:
            return None
        return {name: usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}


class Rig:
    """One router, its engines, and a client."""

    def __init__(self, cluster: SimulatedCluster, router: Router, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self.router = router
        self.session = session
        self.base = f"http://{cluster.router_host}:{router.port}"

    async def get(self, path: str) -> Result:
        async with self.session.get(self.base + path) as response:
            return Result(status=response.status, headers=dict(response.headers), raw=await response.read())

    async def post(self, path: str, body: Any = None, /, *, base: str | None = None, **fields: Any) -> Result:
        """Send a request to the router, or to `base`."""
        data = body if isinstance(body, (bytes, dict)) else fields
        options: dict[str, Any] = {"data": data} if isinstance(data, bytes) else {"json": data}
        async with self.session.post((base or self.base) + path, **options) as response:
            return Result(status=response.status, headers=dict(response.headers), raw=await response.read())

    async def complete(self, ids: list[int], /, **fields: Any) -> Result:
        return await self.post("/v1/completions", model="m", prompt=ids, **{"temperature": 0, **fields})

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with these labels."""
        total = 0.0
        for family in text_string_to_metric_families(self.router.metrics.render().decode()):
            for sample in family.samples:
                if sample.name == name and all(
                    sample.labels.get(key) == value for key, value in labels.items()
                ):
                    total += sample.value
        return total

    def decisions(self, decision: str, reason: str) -> float:
        return self.metric("dpd_router_decisions_total", decision=decision, reason=reason)

    async def settled(self) -> None:
        """Wait until the router owns nothing; the books must balance then."""
        left = await self.router.custodian.settle_all(LIMIT_SECONDS)
        assert left == 0
        self.router.books.check()
        assert self.router.books.open_entries == 0
        assert self.router.notifications.open == 0
        assert [self.router.books.outstanding(w.key) for w in self.decoders] == [0] * len(self.decoders)

    async def notification_in_vain(self) -> None:
        """Let the time pass for which the router waits for the notification of its only hand-off."""

        def waits() -> list[asyncio.Future[Any]]:
            found = [wait for handoff in self.router.custodian.handoffs for wait in handoff.notified._waiters]
            return [wait for wait in found if not wait.done()]

        await until(lambda: len(waits()) == 1)
        (wait,) = waits()
        time_passes(PATIENT_SECONDS)
        await until(wait.done)

    @property
    def decoders(self) -> list[Worker]:
        return list(self.router.pool.workers(Role.DECODE))

    async def knows_its_decoders(self) -> None:
        """Wait until the router has found out which of them have died."""
        running = [engine for engine in self.cluster.decoders if engine.running]
        await until(lambda: len(self.router.pool.usable_decoders()) == len(running))

    def used_chunks(self) -> list[tuple[int, ...]]:
        return [engine.used_chunks for engine in self.cluster.decoders]


def prompt(tokens: int, seed: int = 0) -> list[int]:
    """Return random token ids that are words of the simulated vocabulary."""
    generator = random.Random(seed)
    return [generator.randint(400, 15_000) for _ in range(tokens)]


PATIENT = {
    # what has ended refuses connections at once
    "--connect-timeout-seconds": str(NEVER_SECONDS),
    "--health-timeout-seconds": str(NEVER_SECONDS),
    "--tokenize-timeout-seconds": str(NEVER_SECONDS),
    "--drain-timeout-seconds": str(NEVER_SECONDS),
    "--buffer-wait-seconds": str(PATIENT_SECONDS),
    "--prefill-timeout-seconds": str(PATIENT_SECONDS),
    "--notification-timeout-seconds": str(PATIENT_SECONDS),
    "--drain-grace-seconds": str(PATIENT_SECONDS),
    "--shutdown-grace-seconds": str(PATIENT_SECONDS),
}
"""Flags of a router that gives nothing up, with their values."""

PATIENT_FLAGS = tuple(itertools.chain(*PATIENT.items()))


@contextlib.asynccontextmanager
async def running(
    *flags: str,
    prefill: int = 1,
    decode: int = 1,
    engine: EngineConfig | None = None,
    lmcache: LMCacheConfig | None = None,
    wait: bool = True,
) -> AsyncIterator[Rig]:
    """Run engines and a router with a threshold of 512 tokens until the block ends."""
    async with SimulatedCluster(prefill=prefill, decode=decode, engine=engine, lmcache=lmcache) as cluster:
        config = cluster.decoders[0].config
        chunks = config.lmcache.total_chunks if config.lmcache is not None else 1
        defaults = {
            "--host": cluster.router_host,
            "--notification-host": cluster.router_host,
            "--prefillers": ",".join(e.url for e in cluster.prefillers),
            "--decoders": ",".join(e.url for e in cluster.decoders),
            "--decoder-buffer-chunks": str(chunks),
            "--tensor-parallel": str(config.tensor_parallel_size),
            "--threshold": "512",
            "--health-interval-seconds": "0.05",
            **PATIENT,
        }
        given = dict(zip(flags[::2], flags[1::2], strict=True))
        router = Router(load([item for pair in (defaults | given).items() for item in pair], {}), {})
        async with serving(router, cluster, workers=prefill + decode if wait else 0) as rig:
            yield rig


@contextlib.asynccontextmanager
async def serving(router: Router, cluster: SimulatedCluster, *, workers: int) -> AsyncIterator[Rig]:
    """Run a router until the block ends; enter the block when that many workers are up."""
    up = asyncio.Event()
    seen: set[str] = set()

    def count(worker: Worker) -> None:
        seen.add(worker.url)
        if len(seen) >= workers:
            up.set()

    router.pool.on_up.append(count)
    await router.start()
    try:
        if workers:
            async with asyncio.timeout(LIMIT_SECONDS):
                await up.wait()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            yield Rig(cluster, router, session)
    finally:
        await router.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Let everything else run until a condition holds."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not condition():  # noqa: ASYNC110 -- a metric or an engine's state sets no event
            await asyncio.sleep(0)
