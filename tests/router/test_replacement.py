"""One router takes the place of another under traffic, both processes behind one Service, as an update runs them."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dpd_router.generation import DECISION_HEADER
from dpd_simulator import (
    NOTIFICATION_PORT,
    ROUTER_HTTP_PORT,
    ConstantStepTimes,
    Fault,
    FaultKind,
    SimulatedCluster,
)
from tests.router.api_server import ApiServer, a_slice, api_server
from tests.router.support import LIMIT_SECONDS, PATIENT_FLAGS, Result, prompt, until
from tests.router.test_process import start

LONG, SHORT = 4, 2  # clients
MODELS = b"GET /v1/models HTTP/1.1\r\nHost: router\r\n\r\n"
BODY = json.dumps({"model": "m", "prompt": prompt(60), "max_tokens": 2}).encode()
POST = b"POST /v1/completions HTTP/1.1\r\nHost: router\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


class Service:
    """The routers' Service: a new connection goes to the pod that is ready, one that is open stays where it is."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.pod = ""
        self.unanswered: dict[str, int] = {}
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        for port in (ROUTER_HTTP_PORT, NOTIFICATION_PORT):
            self._servers.append(await asyncio.start_server(self._accept, self.address, port))

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            await self._connect(reader, writer, writer.get_extra_info("sockname")[1])

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        pod = self.pod
        is_request = port == ROUTER_HTTP_PORT
        self.unanswered[pod] = self.unanswered.get(pod, 0) + is_request
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(pod, port)
            upwards = asyncio.create_task(_pump(reader, upstream_writer))
            try:
                if first := await upstream_reader.read(1 << 16):
                    self.unanswered[pod] -= is_request
                    is_request = False
                    writer.write(first)
                    await _pump(upstream_reader, writer)
            finally:
                upwards.cancel()
                upstream_writer.close()
        finally:
            self.unanswered[pod] -= is_request


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()


@dataclasses.dataclass(kw_only=True)
class Pod:
    """A router's process and its address."""

    process: asyncio.subprocess.Process
    address: str
    session: aiohttp.ClientSession

    async def metric(self, name: str, **labels: str) -> float:
        async with self.session.get(f"http://{self.address}:{ROUTER_HTTP_PORT}/metrics") as response:
            families = text_string_to_metric_families(await response.text())
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == f"dpd_router_{name}" and labels.items() <= sample.labels.items()
        )

    async def reaches(self, value: float, name: str) -> None:
        """Wait until a metric has a value."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                # it may not listen yet
                with contextlib.suppress(aiohttp.ClientConnectorError):
                    if await self.metric(name) == value:
                        return
                await asyncio.sleep(0.02)  # another process has no event

    async def has_settled(self) -> None:
        """Wait until it owns no hand-off; each was notified here, and none of another router."""
        await self.reaches(0, "handoffs_open")
        landed = await self.metric("handoffs_total", state="consumed")
        landed += await self.metric("handoffs_total", state="drained")
        assert await self.metric("notifications_total", kind="expected") == landed > 0
        assert await self.metric("notifications_total") == landed
        assert await self.metric("handoffs_total", state="lost") == 0

    async def refuses(self) -> None:
        """Wait until it takes nothing new any more."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while await self._is_ready():  # noqa: ASYNC110 -- another process has no event
                await asyncio.sleep(0.02)

    async def _is_ready(self) -> bool:
        async with self.session.get(f"http://{self.address}:{ROUTER_HTTP_PORT}/ready") as response:
            return response.status == 200

    async def ends(self) -> None:
        """Wait for its end, by itself and without a hand-off left."""
        async with asyncio.timeout(LIMIT_SECONDS):
            _, log = await self.process.communicate()
        assert self.process.returncode == 0, log.decode()


class Stage:
    """Engines, an API server, the Service, and the routers behind it."""

    def __init__(
        self, cluster: SimulatedCluster, api: ApiServer, session: aiohttp.ClientSession, *flags: str
    ) -> None:
        self.cluster = cluster
        self.session = session
        self.service = Service(cluster.router_host)
        self.pods: list[Pod] = []
        self._api = api
        self._flags = flags

    async def router(self) -> Pod:
        """Start a router and return when it knows every worker."""
        address = self.cluster.router_host.rpartition(".")[0] + f".{len(self.pods) + 2}"
        process = await start(
            "--host", address, "--notification-host", address, "--own-addresses", address, *self._flags
        )  # fmt: skip
        pod = Pod(process=process, address=address, session=self.session)
        self.pods.append(pod)
        await self.list_routers(**{other.address: False for other in self.pods})
        await pod.reaches(len(self.cluster.prefillers) + len(self.cluster.decoders), "worker_up")
        return pod

    async def list_routers(self, **terminating: bool) -> None:
        await self._api.change("router", a_slice("r", *terminating.items()))

    async def stop(self) -> None:
        await self.service.stop()
        for pod in self.pods:
            if pod.process.returncode is None:
                pod.process.kill()
                await pod.process.communicate()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    steps = ConstantStepTimes(decode_step_seconds=0.01)
    async with (
        SimulatedCluster(prefill=2, decode=2, colocated=1, step_times=steps) as cluster,
        api_server() as (api, url),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as session,
    ):
        for service, engines in (("prefill", cluster.prefillers), ("decode", cluster.decoders)):
            api.slices[service] = [a_slice("w", *((engine.host, False) for engine in engines))]
        made = Stage(
            cluster, api, session,
            "--discovery", "endpointslices", "--namespace", "ns", "--api-server", url,
            "--service-account-directory", str(tmp_path), "--prefill-service", "prefill",
            "--decode-service", "decode", "--router-service", "router", "--decoder-buffer-chunks", "102",
            "--threshold", "512", "--health-interval-seconds", "0.2", "--log-level", "warning",
            *PATIENT_FLAGS,
        )  # fmt: skip
        await made.service.start()
        try:
            yield made
        finally:
            await made.stop()


@dataclasses.dataclass(kw_only=True)
class Client:
    """Sends one prompt after the other, each over a new connection.

    Attributes:
        sizes: tokens of its prompts, in turn.
        decisions: how its requests were served.
    """

    stage: Stage
    number: int
    sizes: tuple[int, ...]
    decisions: list[str] = dataclasses.field(default_factory=list)

    async def run(self) -> None:
        host = self.stage.cluster.router_host
        for size in itertools.cycle(self.sizes):
            ids = prompt(size, 1000 * self.number + len(self.decisions))
            answer = await self.complete(f"http://{host}:{ROUTER_HTTP_PORT}", ids)
            expected = await self.complete(self.stage.cluster.colocated[0].url, ids)
            assert (answer.text, answer.finish) == (expected.text, expected.finish)
            self.decisions.append(answer.headers[DECISION_HEADER])

    async def complete(self, base: str, ids: list[int]) -> Result:
        body = {"model": "m", "prompt": ids, "max_tokens": 12, "temperature": 0, "stream": True}
        async with self.stage.session.post(base + "/v1/completions", json=body) as response:
            raw = await response.read()
            assert response.status == 200, raw
            return Result(status=response.status, headers=dict(response.headers), raw=raw)


@contextlib.asynccontextmanager
async def traffic(stage: Stage, *sizes: tuple[int, ...]) -> AsyncIterator[list[Client]]:
    """Keep one client per tuple busy until the block ends; a request that fails ends the block with its error."""
    clients = [Client(stage=stage, number=number, sizes=own) for number, own in enumerate(sizes)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(client.run()) for client in clients]
        yield clients
        for task in tasks:
            task.cancel()


async def served(clients: list[Client], *decisions: str) -> None:
    """Wait until every client gets an answer that is served so from now on."""
    seen = [len(client.decisions) for client in clients]
    await until(
        lambda: all(
            set(decisions) & set(client.decisions[before:])
            for client, before in zip(clients, seen, strict=True)
        )
    )


@dataclasses.dataclass(kw_only=True)
class Connection:
    """A client's connection to one router."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def to(cls, pod: Pod, request: bytes) -> Self:
        reader, writer = await asyncio.open_connection(pod.address, ROUTER_HTTP_PORT)
        writer.write(request)
        return cls(reader=reader, writer=writer)

    async def rest(self) -> bytes:
        """Return what comes until the router closes."""
        async with asyncio.timeout(LIMIT_SECONDS):
            answer = await self.reader.read()
        self.writer.close()
        return answer


async def test_router_is_replaced_by_another_without_losing_a_request(stage: Stage) -> None:
    old = await stage.router()
    stage.service.pod = old.address
    async with traffic(stage, *[(60, 600, 700)] * LONG, *[(60,)] * SHORT) as clients:
        long, short = clients[:LONG], clients[LONG:]
        await served(long, "disaggregated")
        # every long prompt is a hand-off under way when the other router comes
        await stage.cluster.add_fault(Fault(kind=FaultKind.HANG), stage.cluster.prefillers)
        await old.reaches(LONG, "handoffs_open")
        new = await stage.router()
        for router in (old, new):
            await router.reaches(1, "other_routers")
        # a router that is told to stop waits for the end of this body
        held = await Connection.to(old, MODELS + POST[:-1])
        idle = await Connection.to(old, MODELS)
        for connection in (held, idle):
            assert await connection.reader.readuntil(b"}]}")

        stage.service.pod = new.address
        await stage.list_routers(**{old.address: True, new.address: False})
        await until(lambda: stage.service.unanswered[old.address] == LONG)
        old.process.send_signal(signal.SIGTERM)
        await old.refuses()
        assert await idle.rest() == b""
        await served(short, "direct")
        await stage.cluster.remove_faults()
        # their hand-offs end at the old router, their next long prompt is decoded directly by the new one
        await served(long, "disaggregated", "fallback")
        await old.has_settled()
        held.writer.write(POST[-1:])
        assert (await held.rest()).startswith(b"HTTP/1.1 200")
        await old.ends()

        assert await new.metric("handoffs_total") == 0
        await stage.list_routers(**{new.address: False})
        await served(long, "disaggregated")
    await new.has_settled()
    new.process.send_signal(signal.SIGTERM)
    await new.ends()
    assert [decoder.used_chunks for decoder in stage.cluster.decoders] == [(0,), (0,)]
    assert [decoder.reserved_chunks for decoder in stage.cluster.decoders] == [(0,), (0,)]
