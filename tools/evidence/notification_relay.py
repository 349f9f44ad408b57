"""Stands between the ranks of a prefiller and the router: counts their notifications, and loses some on purpose."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import zmq

_POLL_MILLISECONDS: Final = 50


class NotificationRelay:
    """Passes notifications on from `source` to `target`; both are ZeroMQ endpoints."""

    def __init__(self, source: str, target: str) -> None:
        self._context = zmq.Context()
        self._receive = self._context.socket(zmq.PULL)
        self._receive.bind(source)
        self._send = self._context.socket(zmq.PUSH)
        self._send.setsockopt(zmq.LINGER, 0)
        self._send.connect(target)
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()
        self._to_lose = 0
        self._lost: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._pass_on, name="notification-relay", daemon=True)

    @contextmanager
    def running(self) -> Iterator["NotificationRelay"]:
        """Relay until the block ends."""
        self._thread.start()
        try:
            yield self
        finally:
            self._ending.set()
            self._thread.join()
            self._receive.close(0)
            self._send.close()
            self._context.term()

    def lose(self, count: int) -> None:
        """Lose the last rank's notification of the next `count` hand-offs that nobody has reported yet."""
        with self._lock:
            self._to_lose = count

    @property
    def lost(self) -> list[str]:
        """Ids of the hand-offs of which a notification was lost."""
        with self._lock:
            return list(self._lost)

    def per_handoff(self) -> dict[int, int]:
        """Return how many hand-offs were reported how often: `{2: 40}` is forty by two ranks each."""
        with self._lock:
            return dict(sorted(Counter(self._seen.values()).items()))

    def _pass_on(self) -> None:
        poller = zmq.Poller()
        poller.register(self._receive, zmq.POLLIN)
        while not self._ending.is_set():
            if poller.poll(_POLL_MILLISECONDS):
                message = self._receive.recv()
                if not self._loses(str(msgspec.msgpack.decode(message)["req_id"])):
                    self._send.send(message)

    def _loses(self, handoff: str) -> bool:
        with self._lock:
            self._seen[handoff] += 1
            if self._to_lose and self._seen[handoff] > 1 and handoff not in self._lost:
                self._to_lose -= 1
                self._lost.append(handoff)
                return True
            return False
