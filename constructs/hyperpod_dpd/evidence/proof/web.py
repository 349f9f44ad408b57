"""HTTP with one limit for the whole exchange: a server that trickles is as slow as one that says nothing."""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

CONNECT_SECONDS: Final = 5.0
LARGEST_ANSWER_BYTES: Final = 64 * 1024**2
"""A worker's metrics are about a megabyte; whoever sends this much is not what was asked for."""


class NoAnswerError(OSError):
    """Nobody answered, or not in time, or not with HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """Return the body as JSON.

        Raises:
            ValueError: it is none.
        """
        try:
            return json.loads(self.data)
        except RecursionError:
            raise ValueError("JSON that is nested too deeply") from None

    @property
    def text(self) -> str:
        """The body as text, whatever is in it."""
        return self.data.decode(errors="replace")


class Deadline:
    """A moment after which nothing waits any more."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, never below zero."""
        return max(0.0, self._end - time.monotonic())

    def at_most(self, seconds: float) -> float:
        """Return `seconds`, or what is left."""
        return min(seconds, self.left)

    def before(self, seconds: float) -> "Deadline":
        """Return the moment so many seconds earlier."""
        return Deadline(self.left - seconds)


def ask(
    url: str,
    *,
    seconds: float,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    context: Any = None,
) -> Answer:
    """Return the answer to a GET, or to a POST of `body` as JSON.

    Args:
        url: address, `http` or `https`.
        seconds: limit of the whole exchange.
        body: JSON to post.
        headers: further headers.
        context: `ssl.SSLContext` for `https`.

    Raises:
        NoAnswerError: there is no complete answer within the limit; the text says why.
    """
    if seconds <= 0:
        raise NoAnswerError("no time was left to ask")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NoAnswerError(f"`{url}` is not an address of the web")
    connect = min(CONNECT_SECONDS, seconds)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=connect, context=context)
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=connect)
    late = threading.Event()
    watchdog = threading.Timer(seconds, _hang_up, (connection, late))
    watchdog.daemon = True
    watchdog.start()
    try:
        answer = _exchange(
            connection, parts.path + (f"?{parts.query}" if parts.query else ""), body, headers, seconds
        )
        if late.is_set():
            # cut by the watchdog, and of an answer without a length nobody can tell
            raise TimeoutError
    except (OSError, http.client.HTTPException, ValueError) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise NoAnswerError(f"no answer within {seconds:.0f} seconds") from None
        raise NoAnswerError(_said(error)) from None
    else:
        return answer
    finally:
        watchdog.cancel()
        connection.close()


def _exchange(
    connection: http.client.HTTPConnection,
    path: str,
    body: Any,
    headers: Mapping[str, str] | None,
    seconds: float,
) -> Answer:
    data = None if body is None else json.dumps(body).encode()
    given = {"Accept": "*/*", "Connection": "close", **(headers or {})}
    if data is not None:
        given["Content-Type"] = "application/json"
    _connect(connection, seconds)
    connection.sock.settimeout(seconds)
    connection.request("GET" if data is None else "POST", path or "/", body=data, headers=given)
    with connection.getresponse() as response:
        content = response.read(LARGEST_ANSWER_BYTES + 1)
        if len(content) > LARGEST_ANSWER_BYTES:
            raise ValueError(f"the answer is larger than {LARGEST_ANSWER_BYTES} bytes")
        if response.length:
            raise ValueError(f"the answer ends {response.length} bytes too early")
        return Answer(status=response.status, data=content, headers=dict(response.headers))


def _connect(connection: http.client.HTTPConnection, seconds: float) -> None:
    """Connect in a thread: no limit of a socket ends the lookup of its name."""
    failure: list[OSError] = []

    def run() -> None:
        try:
            connection.connect()
        except OSError as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if thread.is_alive():
        raise TimeoutError


def _hang_up(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    late.set()
    sock = connection.sock
    if sock is not None:
        # unlike a close, it wakes the thread that reads
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _said(error: Exception) -> str:
    text = str(error) or error.__class__.__name__
    return text[:1].lower() + text[1:]
