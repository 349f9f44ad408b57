"""A client for simulated engines, as a router would talk to them."""

import asyncio
import dataclasses
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import msgspec
import pytest
import zmq
import zmq.asyncio

from dpd_simulator import NOTIFICATION_PORT, Clock, SimulatedCluster, SimulatedEngine
from tests.router.support import LIMIT_SECONDS

HubFactory = Callable[[SimulatedCluster], Awaitable["Hub"]]


class Hub:
    """The router's side: an HTTP session and the notification socket."""

    def __init__(self, cluster: SimulatedCluster, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self.session = session
        self.notified: dict[str, int] = {}
        self._news = asyncio.Condition()
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.PULL)
        self._socket.bind(f"tcp://{cluster.router_host}:{NOTIFICATION_PORT}")
        self._task = asyncio.create_task(self._receive())

    async def _receive(self) -> None:
        while True:
            message = msgspec.msgpack.decode(await self._socket.recv())
            assert message["type"] == "ProxyNotif"
            async with self._news:
                self.notified[message["req_id"]] = self.notified.get(message["req_id"], 0) + 1
                self._news.notify_all()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._context.destroy(linger=0)

    async def post(self, engine: SimulatedEngine, path: str, /, **body: Any) -> dict[str, Any]:
        async with self.session.post(engine.url + path, json=body) as response:
            return {"status": response.status, **await response.json()}

    async def stream(self, engine: SimulatedEngine, path: str, /, **body: Any) -> list[dict[str, Any]]:
        """Events of a stream; the last line must be the end mark."""
        async with self.session.post(engine.url + path, json={**body, "stream": True}) as response:
            assert response.status == 200
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            raw = (await response.read()).decode()
        events = [line.removeprefix("data: ") for line in raw.split("\n\n") if line]
        assert events.pop() == "[DONE]"
        return [json.loads(event) for event in events]

    async def prefill(
        self,
        prompt: list[int],
        request_id: str,
        *,
        tag: str | None = None,
        prefiller: int = 0,
        decoder: int = 0,
    ) -> dict[str, Any]:
        target = self.cluster.decoders[decoder]
        lmcache = target.config.lmcache
        assert lmcache is not None
        params: dict[str, Any] = {
            "ret_first_tok": True,
            "disagg_spec": {
                "req_id": request_id,
                "receiver_host": target.host,
                "receiver_init_port": list(lmcache.init_ports),
                "receiver_alloc_port": list(lmcache.alloc_ports),
            },
        }
        if tag is not None:
            params["lmcache.tag.request"] = tag
        return await self.post(
            self.cluster.prefillers[prefiller],
            "/v1/completions",
            prompt=prompt,
            max_tokens=1,
            temperature=0,
            kv_transfer_params=params,
        )

    async def wait_notified(self, request_id: str, *, count: int = 1, seconds: float = LIMIT_SECONDS) -> bool:
        try:
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait_for(lambda: self.notified.get(request_id, 0) >= count)
        except TimeoutError:
            return False
        return True

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a state inside an engine that no event announces."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while not condition():  # noqa: ASYNC110 -- as said
                await asyncio.sleep(0.001)

    async def decode(
        self, prompt: list[int], *, tag: str | None = None, max_tokens: int = 1, decoder: int = 0, **body: Any
    ) -> dict[str, Any]:
        if tag is not None:
            body["kv_transfer_params"] = {"lmcache.tag.request": tag}
        return await self.post(
            self.cluster.decoders[decoder],
            "/v1/completions",
            prompt=prompt,
            max_tokens=max_tokens,
            temperature=0,
            **body,
        )


@dataclasses.dataclass(frozen=True)
class HeldClock(Clock):
    """Time that passes only when a test lets it, until it is released: from then on sleepers let it pass."""

    passed: list[float] = dataclasses.field(default_factory=lambda: [0.0])
    sleepers: list[asyncio.Event] = dataclasses.field(default_factory=list)
    released: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    def now(self) -> float:
        return self.passed[0]

    @property
    def is_awaited(self) -> bool:
        """Whether somebody sleeps."""
        return bool(self.sleepers)

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.passed[0] += seconds
        woken, self.sleepers[:] = self.sleepers[:], []
        for sleeper in woken:
            sleeper.set()

    def release(self) -> None:
        """Hold time no more."""
        self.released.set()
        self.passes(0.0)

    async def sleep(self, seconds: float) -> None:
        until = self.now() + max(0.0, seconds)
        await asyncio.sleep(0)
        while self.now() < until:
            if self.released.is_set():
                self.passed[0] = until
            else:
                woken = asyncio.Event()
                self.sleepers.append(woken)
                await woken.wait()


def cached_tokens(answer: dict[str, Any]) -> int:
    tokens: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return tokens


def ids(count: int, seed: int) -> list[int]:
    """Random token ids without special ones."""
    generator = random.Random(seed)
    return [generator.randint(300, 16_000) for _ in range(count)]


@pytest.fixture
async def hub_factory() -> AsyncIterator[HubFactory]:
    """Starts a cluster and the router's side of it; everything ends with the test."""
    started: list[tuple[SimulatedCluster, aiohttp.ClientSession, Hub]] = []

    async def start(cluster: SimulatedCluster) -> Hub:
        await cluster.__aenter__()
        session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LIMIT_SECONDS))
        hub = Hub(cluster, session)
        started.append((cluster, session, hub))
        return hub

    yield start
    for cluster, session, hub in started:
        await session.close()
        await hub.close()
        await cluster.close()
