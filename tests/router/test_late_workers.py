"""Workers whose health checks are answered late or not at all, as those of a saturated fleet are."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from dpd_router.config import HealthPolicy, load
from dpd_router.metrics import Metrics
from dpd_router.pool import Pool, Role, Worker
from dpd_router.router import Router
from dpd_simulator import SimulatedCluster
from tests.router.support import LIMIT_SECONDS, PATIENT_SECONDS, Clock, Rig, serving, time_passes, until

GRACE_SECONDS = 30.0


class SaturatedWorker:
    """Holds health checks while `late`; a stream gets its next token when a check has come."""

    def __init__(self) -> None:
        self.late = False
        self.answering = True
        self.held_checks = 0
        self._token = asyncio.Event()
        self._over = asyncio.Event()

    async def start(self, host: str) -> tuple[str, web.AppRunner]:
        application = web.Application()
        application.router.add_get("/health", self._health)
        application.router.add_get("/v1/models", self._models)
        application.router.add_post("/v1/completions", self._complete)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, host, 0).start()
        return f"http://{host}:{runner.addresses[0][1]}", runner

    def end(self) -> None:
        self._over.set()
        self._token.set()

    async def _health(self, _: web.Request) -> web.Response:
        if self.late:
            self.held_checks += 1
            if self.answering:
                self._token.set()
            await self._over.wait()
        return web.Response()

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m", "max_model_len": 16384}, {"id": "dpd-epoch-0"}]})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        if not (await request.json()).get("stream"):
            return web.json_response({"choices": [{"text": "whole"}]})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while not self._over.is_set():
            await response.write(b'data: {"choices":[{"index":0,"text":"a"}]}\n\n')
            await self._token.wait()
            self._token.clear()
        await response.write(b"data: [DONE]\n\n")
        return response


@contextlib.asynccontextmanager
async def saturated(*flags: str) -> AsyncIterator[tuple[SaturatedWorker, Rig]]:
    worker, cluster = SaturatedWorker(), SimulatedCluster()
    url, runner = await worker.start(cluster.router_host)
    settings = load(
        [
            "--host", cluster.router_host, "--decoders", url, "--threshold", "never",
            "--health-interval-seconds", "0.02", "--health-timeout-seconds", "0.2", "--shutdown-grace-seconds", "0.1",
            *flags,
        ],
        {},
    )  # fmt: skip
    try:
        async with serving(Router(settings, {}), cluster, workers=1) as rig:
            yield worker, rig
            worker.end()
    finally:
        await runner.cleanup()


async def streaming(rig: Rig) -> asyncio.Task[bytes]:
    """Start a stream and return when its first token is there."""
    response = await rig.session.post(rig.base + "/v1/completions", json={"model": "m", "stream": True})
    await response.content.readuntil(b"\n\n")
    return asyncio.create_task(response.read())


async def heard_despite(worker: SaturatedWorker, rig: Rig, checks: int) -> None:
    """Wait until the worker has written something while so many checks wait."""
    await until(lambda: worker.held_checks == checks and rig.decoders[0].heard)


async def test_late_checks_do_not_take_out_a_worker_that_answers_requests() -> None:
    async with saturated("--health-timeout-seconds", str(PATIENT_SECONDS)) as (worker, rig):
        stream = await streaming(rig)
        worker.late = True
        for checks in range(1, 5):
            await heard_despite(worker, rig, checks)
            time_passes(PATIENT_SECONDS)
        await until(lambda: rig.metric("dpd_router_late_checks_total", result="alive") == 4)
        assert rig.metric("dpd_router_late_checks_total", result="silent") == 0
        assert rig.metric("dpd_router_worker_up") == 1
        assert rig.metric("dpd_router_worker_late") == 1
        assert (await rig.post("/v1/completions", model="m")).status == 200
        assert rig.metric("dpd_router_last_resort_total") == 0
        worker.end()
        assert (await stream).endswith(b"data: [DONE]\n\n")


async def test_a_fleet_that_is_only_late_serves_on() -> None:
    async with saturated() as (worker, rig):
        worker.late, worker.answering = True, False
        await until(lambda: not rig.decoders[0].up)
        assert (await rig.post("/v1/completions", model="m")).text == "whole"
        assert rig.metric("dpd_router_last_resort_total") == 1
        assert (await rig.get("/ready")).status == 200
        assert [model["id"] for model in (await rig.get("/v1/models")).body["data"]] == ["m"]


async def test_a_late_worker_is_back_with_its_first_good_check() -> None:
    async with saturated("--healthy-after", "1000") as (worker, rig):
        worker.late, worker.answering = True, False
        await until(lambda: not rig.decoders[0].up)
        worker.late = False
        await until(lambda: rig.decoders[0].up)
        assert rig.metric("dpd_router_worker_late") == 0


async def test_without_a_grace_a_late_fleet_is_none() -> None:
    async with saturated("--late-grace-seconds", "0") as (worker, rig):
        worker.late, worker.answering = True, False
        await until(lambda: not rig.decoders[0].up)
        answer = await rig.post("/v1/completions", model="m")
        assert (answer.status, answer.body["error"]["code"]) == (503, "no_decoder")
        assert (await rig.get("/ready")).status == 503
        assert (await rig.get("/v1/models")).status == 503


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(clock: Clock) -> Pool:
    return Pool(HealthPolicy(late_grace_seconds=GRACE_SECONDS), Metrics(), clock=clock)


def silent(pool: Pool, name: str) -> Worker:
    """Return a decoder that was up, and whose checks are not answered any more."""
    worker = pool.add(Role.DECODE, f"http://{name}:8000")
    pool.passed(worker, {"m": 100}, 0)
    for _ in range(2):
        worker.heard = False
        pool.unanswered(worker, "timeout")
    assert not worker.up
    return worker


def test_late_decoders_are_for_want_of_others_only(pool: Pool) -> None:
    late = silent(pool, "late")
    assert pool.decoder() is late
    other = pool.add(Role.DECODE, "http://other:8000")
    pool.passed(other, {"m": 100}, 0)
    assert pool.decoder() is other
    assert pool.decoder(exclude=[other]) is None


def test_a_worker_that_stays_silent_is_taken_for_hung(pool: Pool, clock: Clock) -> None:
    late = silent(pool, "late")
    clock.now += GRACE_SECONDS - 1
    late.heard = True
    pool.unanswered(late, "timeout")
    clock.now += GRACE_SECONDS - 1
    assert pool.decoder() is late
    clock.now += 1
    assert pool.decoder() is None


def test_late_is_neither_gone_nor_broken_nor_draining_nor_unknown(pool: Pool) -> None:
    pool.refused(silent(pool, "gone"))
    pool.failed(silent(pool, "broken"), "health 500")
    pool.drain(silent(pool, "draining"), draining=True)
    pool.unanswered(pool.add(Role.DECODE, "http://never-up:8000"), "timeout")
    assert pool.decoder() is None


def test_a_late_worker_gets_no_hand_offs(pool: Pool) -> None:
    silent(pool, "late")
    assert pool.usable_decoders() == []


async def test_long_prompts_of_a_late_fleet_are_decoded_directly() -> None:
    async with saturated("--threshold", "1", "--prefillers", "http://127.0.0.1:9", "--decoder-buffer-chunks", "9",
                         "--notification-port", "0") as (worker, rig):  # fmt: skip
        worker.late, worker.answering = True, False
        await until(lambda: not rig.decoders[0].up)
        async with asyncio.timeout(LIMIT_SECONDS):
            assert (await rig.post("/v1/completions", model="m", prompt="x" * 9000)).status == 200
        assert rig.decisions("direct", "no_decoder") == 1
