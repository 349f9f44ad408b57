import asyncio
import errno
import socket
from typing import Any, NoReturn

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.client_reqrep import ConnectionKey

from dpd_router.config import HealthPolicy, Timeouts
from dpd_router.health import HealthMonitor
from dpd_router.metrics import Metrics
from dpd_router.pool import Pool, Role, Worker
from dpd_router.relay import RelayPool
from dpd_router.tasks import Supervisor
from dpd_router.upstream import Upstream, UpstreamError, classify
from tests.router.support import LIMIT_SECONDS, until

# a machine that stands still for a moment is no worker that does not answer
PATIENT_TIMEOUTS = Timeouts(connect_timeout_seconds=LIMIT_SECONDS)
PATIENT_POLICY = HealthPolicy(health_timeout_seconds=LIMIT_SECONDS)


def not_connected_because(number: int) -> aiohttp.ClientConnectorError:
    key = ConnectionKey("10.0.0.1", 8000, False, False, None, None, None)
    return aiohttp.ClientConnectorError(key, OSError(number, ""))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), "timeout"),
        (aiohttp.ConnectionTimeoutError(), "unreachable"),
        (not_connected_because(errno.ECONNREFUSED), "refused"),
        (not_connected_because(errno.EHOSTUNREACH), "unreachable"),
        (not_connected_because(errno.EMFILE), "local"),
        (not_connected_because(errno.EADDRNOTAVAIL), "local"),
        (aiohttp.ServerDisconnectedError(), "broken"),
        (ConnectionResetError(), "broken"),
        (msgspec.DecodeError(), "malformed"),
        (UpstreamError("status", 500), "status"),
    ],
)
def test_errors_in_the_router_s_words(error: BaseException, kind: str) -> None:
    assert classify(error).kind == kind


def test_unexpected_errors_are_not_hidden() -> None:
    with pytest.raises(KeyError):
        classify(KeyError())


@pytest.mark.parametrize(
    ("status", "rejected"), [(400, True), (404, True), (499, True), (500, False), (503, False), (None, False)]
)
def test_rejections_are_the_request_s_own_fault(status: int | None, rejected: bool) -> None:
    assert UpstreamError("status", status).rejected == rejected


@pytest.mark.parametrize(
    ("status", "final"), [(400, True), (404, True), (408, False), (429, False), (503, False)]
)
def test_a_busy_worker_s_refusal_is_not_another_s(status: int, final: bool) -> None:
    assert UpstreamError("status", status).final == final


async def test_a_router_without_files_blames_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_file(*_: Any, **__: Any) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("socket.socket", no_file)
    monkeypatch.setattr("aiohappyeyeballs.impl.socket.socket", no_file)
    pool, upstream, relays = (
        Pool(HealthPolicy(), Metrics()),
        Upstream(PATIENT_TIMEOUTS),
        RelayPool(LIMIT_SECONDS),
    )
    await upstream.start()
    worker = pool.add(Role.DECODE, "http://127.0.0.1:1")
    pool.passed(worker, {"m": 1}, 0)
    monitor = HealthMonitor(pool, upstream, PATIENT_POLICY, Supervisor())
    for _ in range(3):
        await monitor.check(worker)
    with pytest.raises(UpstreamError) as relayed:
        await relays.send(
            worker, "/v1/x", {}, b"", on_data=lambda data: None, idle_timeout_seconds=LIMIT_SECONDS
        )
    assert (relayed.value.kind, relayed.value.unsent) == ("local", True)
    assert (worker.up, worker.bad_checks) == (True, 0)
    await upstream.stop()
    await relays.stop()


@pytest.mark.parametrize(
    ("health", "models", "models_status", "up"),
    [
        (200, '{"data":[]}', 200, True),
        (503, '{"data":[]}', 200, False),
        (200, "no json", 200, False),
        (200, '{"data":5}', 200, False),
        (200, "", 500, False),
    ],
)
async def test_health_check(health: int, models: str, models_status: int, up: bool) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/health":
            return web.Response(status=health)
        return web.Response(text=models, status=models_status)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pool, upstream = Pool(HealthPolicy(), Metrics()), Upstream(PATIENT_TIMEOUTS)
    await upstream.start()
    worker = pool.add(Role.DECODE, f"http://127.0.0.1:{runner.addresses[0][1]}")
    monitor = HealthMonitor(pool, upstream, PATIENT_POLICY, Supervisor())
    await monitor.check(worker)
    assert (worker.up, worker.bad_checks) == (up, 0 if up else 1)
    await upstream.stop()
    await runner.cleanup()


async def test_name_that_does_not_resolve_is_unreachable_and_was_certainly_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*arguments: Any, **options: Any) -> NoReturn:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr("socket.getaddrinfo", fail)
    worker = Worker(role=Role.DECODE, url="http://decoder.example:8000")
    upstream, relays = Upstream(PATIENT_TIMEOUTS), RelayPool(LIMIT_SECONDS)
    await upstream.start()
    try:
        with pytest.raises(UpstreamError) as checked:
            await upstream.check(worker, "/health", LIMIT_SECONDS)
        with pytest.raises(UpstreamError) as relayed:
            await relays.send(
                worker, "/v1/x", {}, b"", on_data=lambda data: None, idle_timeout_seconds=LIMIT_SECONDS
            )
    finally:
        await upstream.stop()
        await relays.stop()
    assert [(error.value.kind, error.value.unsent) for error in (checked, relayed)] == [
        ("unreachable", True)
    ] * 2


async def test_worker_that_is_removed_is_not_checked_any_more() -> None:
    pool, upstream = Pool(HealthPolicy(), Metrics()), Upstream(Timeouts())
    await upstream.start()
    monitor = HealthMonitor(pool, upstream, HealthPolicy(), Supervisor())
    worker = pool.add(Role.DECODE, "http://127.0.0.1:1")
    (task,) = monitor._tasks.values()
    monitor.check_now(worker)
    pool.remove(worker)
    monitor.check_now(worker)
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    await monitor.stop()
    await upstream.stop()


@pytest.mark.parametrize("seconds", [3600.0, 0.001])
async def test_checks_come_after_their_interval_or_at_once_after_trouble(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[Worker] = []

    async def check(worker: Worker) -> None:
        checked.append(worker)
        await asyncio.sleep(0)

    async def passes() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    pool = Pool(HealthPolicy(), Metrics())
    policy = HealthPolicy(health_interval_seconds=seconds)
    monitor = HealthMonitor(pool, Upstream(Timeouts()), policy, Supervisor())
    monkeypatch.setattr(monitor, "check", check)
    worker = pool.add(Role.DECODE, "http://127.0.0.1:1")
    if seconds < 1:
        await until(lambda: len(checked) > 3)
    else:
        await passes()
        assert checked == [worker]
        monitor.check_now(worker)
        await passes()
        assert checked == [worker, worker]
    await monitor.stop()


async def test_background_task_that_fails_ends_the_router(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> None:
        raise ValueError

    supervisor = Supervisor()
    supervisor.start(broken(), "broken")
    await supervisor.failed.wait()
    assert "background task ended" in caplog.text


async def test_checks_open_connections_and_leave_none() -> None:
    connections: set[object] = set()

    async def answer(request: web.Request) -> web.Response:
        connections.add(request.transport)
        return web.Response()

    application = web.Application()
    application.router.add_get("/health", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    worker = Worker(role=Role.DECODE, url=f"http://127.0.0.1:{runner.addresses[0][1]}")
    upstream = Upstream(PATIENT_TIMEOUTS)
    await upstream.start()
    try:
        for _ in range(3):
            await upstream.check(worker, "/health", LIMIT_SECONDS)
        assert len(connections) == 3
    finally:
        await upstream.stop()
        await runner.cleanup()
