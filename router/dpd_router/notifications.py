"""The socket on which prefillers report that a rank's KV cache has been written.

LMCache pushes one msgpack map `{"type": "ProxyNotif", "req_id": ...}` per tensor-parallel rank over
ZeroMQ. A message does not say which rank sent it, so ranks can only be counted.
"""

import asyncio
import collections
import dataclasses
import logging
from collections.abc import Callable
from typing import Final

import msgspec
import zmq
import zmq.asyncio

from dpd_router.metrics import Metrics
from dpd_router.tasks import Supervisor, cancelled

log = logging.getLogger(__name__)

# a notification has about 60 bytes; the socket drops anything larger and its sender's connection
MAX_MESSAGE_BYTES: Final = 4096
# messages handled before other tasks get their turn, so that a flood cannot starve requests
BATCH: Final = 64
# settled hand-offs that are remembered, to tell late and duplicate notifications from unknown ones
REMEMBERED: Final = 4096


class ProxyNotif(msgspec.Struct, tag=True):
    """A rank has written its part of a hand-off."""

    req_id: str


_decode = msgspec.msgpack.Decoder(ProxyNotif).decode


@dataclasses.dataclass(slots=True)
class Expectation:
    """What is still missing of one hand-off."""

    missing: int
    complete: asyncio.Event


class Notifications:
    """Counts notifications per hand-off."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._expected: dict[str, Expectation] = {}
        self._settled: collections.OrderedDict[str, None] = collections.OrderedDict()
        self.on_late: list[Callable[[str], None]] = []

    def expect(self, handoff: str, ranks: int) -> asyncio.Event:
        """Announce a hand-off; the event is set when every rank has reported."""
        expectation = Expectation(missing=ranks, complete=asyncio.Event())
        self._expected[handoff] = expectation
        return expectation.complete

    def forget(self, handoff: str) -> None:
        """End the expectation of a hand-off that is settled."""
        if self._expected.pop(handoff, None) is not None:
            self._settled[handoff] = None
            while len(self._settled) > REMEMBERED:
                self._settled.popitem(last=False)

    def missing(self, handoff: str) -> int:
        """Return how many ranks have not reported an expected hand-off; 0 for one that is settled."""
        expectation = self._expected.get(handoff)
        return 0 if expectation is None else expectation.missing

    @property
    def open(self) -> int:
        """Number of hand-offs that are expected."""
        return len(self._expected)

    def receive(self, message: bytes) -> None:
        """Handle one message; nothing that a sender can write raises."""
        try:
            handoff = _decode(message).req_id
        except (msgspec.DecodeError, msgspec.ValidationError):
            self._metrics.notifications.labels("malformed").inc()
            return
        expectation = self._expected.get(handoff)
        if expectation is None:
            late = handoff in self._settled
            self._metrics.notifications.labels("late" if late else "unknown").inc()
            for listener in self.on_late if late else ():
                listener(handoff)
        elif expectation.missing == 0:
            self._metrics.notifications.labels("duplicate").inc()
        else:
            self._metrics.notifications.labels("expected").inc()
            expectation.missing -= 1
            if expectation.missing == 0:
                expectation.complete.set()


class NotificationSocket:
    """Binds the socket and feeds `Notifications`."""

    def __init__(self, notifications: Notifications, supervisor: Supervisor, host: str, port: int) -> None:
        self._notifications = notifications
        self._supervisor = supervisor
        self._host = host
        self._port = port
        self._context: zmq.asyncio.Context | None = None
        self._socket: zmq.asyncio.Socket | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that is bound."""
        return self._port

    def start(self) -> None:
        """Bind the socket and start to read.

        Raises:
            zmq.ZMQError: the address is in use or not ours.
        """
        self._context = zmq.asyncio.Context()
        socket = self._context.socket(zmq.PULL)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        try:
            if self._port == 0:
                self._port = socket.bind_to_random_port(f"tcp://{self._host}")
            else:
                socket.bind(f"tcp://{self._host}:{self._port}")
        except zmq.ZMQError:
            socket.close()
            self._context.term()
            raise
        self._socket = socket
        self._task = self._supervisor.start(self._read(socket), "notifications")

    async def _read(self, socket: zmq.asyncio.Socket) -> None:
        handled = 0
        while True:
            self._notifications.receive(await socket.recv())
            handled += 1
            if handled % BATCH == 0:
                await asyncio.sleep(0)

    async def stop(self) -> None:
        """Close the socket."""
        await cancelled(self._task)
        if self._socket is not None:
            self._socket.close()
        if self._context is not None:
            self._context.term()
