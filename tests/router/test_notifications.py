import asyncio

import msgspec
import pytest
import zmq
import zmq.asyncio

from dpd_router.metrics import Metrics
from dpd_router.notifications import BATCH, MAX_MESSAGE_BYTES, REMEMBERED, Notifications, NotificationSocket
from dpd_router.tasks import Supervisor, cancelled
from tests.router.support import LIMIT_SECONDS


def message(handoff: str) -> bytes:
    return msgspec.msgpack.encode({"type": "ProxyNotif", "req_id": handoff})


def counted(metrics: Metrics, kind: str) -> float:
    return metrics.registry.get_sample_value("dpd_router_notifications_total", {"kind": kind}) or 0.0


def test_complete_when_every_rank_has_reported() -> None:
    metrics = Metrics()
    notifications = Notifications(metrics)
    complete = notifications.expect("a", 3)
    for missing in (2, 1, 0):
        notifications.receive(message("a"))
        assert complete.is_set() == (missing == 0)
        assert notifications.missing("a") == missing
    notifications.receive(message("a"))
    assert (counted(metrics, "expected"), counted(metrics, "duplicate")) == (3, 1)


def test_late_and_unknown_are_told_apart() -> None:
    metrics = Metrics()
    notifications = Notifications(metrics)
    notifications.expect("a", 1)
    notifications.forget("a")
    assert notifications.missing("a") == 0
    notifications.forget("never expected")
    notifications.receive(message("a"))
    notifications.receive(message("b"))
    assert (counted(metrics, "late"), counted(metrics, "unknown"), notifications.open) == (1, 1, 0)


def test_malformed_messages_are_counted() -> None:
    metrics = Metrics()
    notifications = Notifications(metrics)
    for raw in (
        b"",
        b"\xc1",
        b"x",
        msgspec.msgpack.encode({"type": "CancelNotif"}),
        msgspec.msgpack.encode([1]),
    ):
        notifications.receive(raw)
    assert counted(metrics, "malformed") == 5


def test_memory_of_settled_hand_offs_is_bounded() -> None:
    metrics = Metrics()
    notifications = Notifications(metrics)
    for number in range(REMEMBERED + 10):
        notifications.expect(str(number), 1)
        notifications.forget(str(number))
    notifications.receive(message("0"))
    notifications.receive(message(str(REMEMBERED + 9)))
    assert (counted(metrics, "unknown"), counted(metrics, "late")) == (1, 1)


async def test_socket_survives_floods_and_oversized_messages() -> None:
    metrics = Metrics()
    notifications = Notifications(metrics)
    complete = notifications.expect("a", 1)
    socket = NotificationSocket(notifications, Supervisor(), "127.0.0.1", 0)
    socket.start()
    context = zmq.asyncio.Context()
    try:
        bad, good = context.socket(zmq.PUSH), context.socket(zmq.PUSH)
        for sender in (bad, good):
            sender.connect(f"tcp://127.0.0.1:{socket.port}")
        await bad.send(b"x" * (MAX_MESSAGE_BYTES + 1))
        for number in range(300):
            await good.send(message(f"unknown {number}"))
        await good.send(message("a"))
        async with asyncio.timeout(LIMIT_SECONDS):
            await complete.wait()
        assert counted(metrics, "unknown") == 300
        assert counted(metrics, "malformed") == 0  # what is too large is not even read
    finally:
        context.destroy(linger=0)
        await socket.stop()


async def test_a_flood_lets_others_run_after_every_batch() -> None:
    class Flood:
        """Always has a message, so that to receive never waits."""

        async def recv(self) -> bytes:
            return message("unknown")

    metrics = Metrics()
    socket = NotificationSocket(Notifications(metrics), Supervisor(), "127.0.0.1", 0)
    reading = asyncio.create_task(socket._read(Flood()))  # type: ignore[arg-type]
    read = []
    for _ in range(3):
        await asyncio.sleep(0)
        read.append(counted(metrics, "unknown"))
    assert read == [BATCH, 2 * BATCH, 3 * BATCH]
    await cancelled(reading)


async def test_port_in_use_is_an_error() -> None:
    first = NotificationSocket(Notifications(Metrics()), Supervisor(), "127.0.0.1", 0)
    first.start()
    try:
        second = NotificationSocket(Notifications(Metrics()), Supervisor(), "127.0.0.1", first.port)
        with pytest.raises(zmq.ZMQError, match="Address already in use"):
            second.start()
    finally:
        await first.stop()


async def test_stopping_a_socket_that_never_started() -> None:
    await NotificationSocket(Notifications(Metrics()), Supervisor(), "127.0.0.1", 0).stop()
