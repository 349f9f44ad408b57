"""The wire of the direct path: a worker's bytes go to the client as they come, chunk framing included.

A general HTTP client wakes a task for every chunk, takes the chunk out of its framing and frames it
again. One answer has hundreds of chunks, so here what the worker's connection reads is written to
the client's connection as it is. The framing is looked at only to find the answer's end.
"""

import asyncio
import collections
import contextlib
from collections.abc import Callable, Mapping
from typing import Final, cast

from aiohttp.abc import AbstractStreamWriter

from dpd_router.http1 import HEAD_LIMIT_BYTES, Framing, Head, request_head
from dpd_router.pool import Worker
from dpd_router.sockets import end_when_silent
from dpd_router.tasks import cancelled
from dpd_router.upstream import GONE_SECONDS, UpstreamError, not_connected

# uvicorn, vLLM's server, closes a connection that was idle for 5 seconds
IDLE_SECONDS: Final = 4.0
_CLIENT_BUFFER_BYTES: Final = 256 * 1024
# More of them make a new request wait longer, fewer cost a turn of the event loop each.
_WRITES_PER_TURN: Final = 2


class Exchange:
    """One request and its answer on a worker's connection.

    The futures are for whoever waits and say nothing about the exchange: a waiter that is cancelled takes the one
    that it waits for along, while the worker still answers.

    Attributes:
        head: the answer's head, once `ready` is done.
        answered: whether any byte of an answer has come.
    """

    def __init__(self, connection: "Connection", outbox: "Outbox", on_data: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._connection = connection
        self._outbox = outbox
        self._on_data = on_data
        self._raw = b""
        self._framing: Framing | None = None
        self._client: asyncio.WriteTransport | None = None
        self._writer: AbstractStreamWriter | None = None
        self._held = b""
        self._draining: asyncio.Task[None] | None = None
        self._last_read = loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._over = False
        self.head: Head | None = None
        self.answered = False
        self.ready: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()

    def watch(self, idle_timeout_seconds: float) -> None:
        """Fail when the worker is silent for too long, unless the client is what it waits for."""
        now = self._loop.time()
        if self._draining is not None:
            self._last_read = now
        left = self._last_read + idle_timeout_seconds - now
        if left <= 0:
            self.fail(UpstreamError("timeout"))
        else:
            self._timer = self._loop.call_later(left, self.watch, idle_timeout_seconds)

    def feed(self, data: bytes) -> None:
        """Take bytes from the worker."""
        self._last_read = self._loop.time()
        self.answered = True
        try:
            framing, data = self._past_head(data)
            if framing is None:
                return
            # bytes after the end would belong to no answer
            surplus = bool(data) and framing.feed(data) < len(data)
        except UpstreamError as error:
            self.fail(error)
            return
        if surplus:
            self.fail(UpstreamError("malformed"))
            return
        if data:
            self._forward(data)
        if (data or framing.ended) and not self.ready.done():
            self.ready.set_result(None)
        if framing.ended and not self._over:
            self.write_held()
            self._finish()
            if not self.done.done():
                self.done.set_result(None)
            self._connection.exchange_ended(keep=self.head is not None and not self.head.will_close)

    def _past_head(self, data: bytes) -> tuple[Framing | None, bytes]:
        """Return the body's framing, once the head is complete, and what of `data` is body."""
        if self._framing is None:
            self._raw += data
            while self._framing is None and (end := self._raw.find(b"\r\n\r\n")) != -1:
                head = Head(self._raw[:end])
                self._raw = self._raw[end + 4 :]
                if not head.interim:
                    self.head = head
                    self._framing = Framing(head.content_length)
            if len(self._raw) > HEAD_LIMIT_BYTES and self._framing is None:
                raise UpstreamError("malformed")
            data = self._raw
            if self._framing is not None:
                self._raw = b""
        return self._framing, data

    @property
    def between_chunks(self) -> bool:
        """Whether the client has whole chunks only, so that another one may follow."""
        return self._framing is not None and self._framing.between_chunks

    def _forward(self, data: bytes) -> None:
        self._on_data(data)
        if self._client is None or self._held:
            self._held += data
        else:
            self._held = data
            self._outbox.add(self)
        if len(self._held) > _CLIENT_BUFFER_BYTES:
            self.write_held()

    def write_held(self) -> None:
        """Send what has come, once there is a client."""
        client = self._client
        if client is None:
            return
        data, self._held = self._held, b""
        if data and not client.is_closing():
            client.write(data)
            if client.get_write_buffer_size() > _CLIENT_BUFFER_BYTES and self._draining is None:
                self._connection.pause()
                self._draining = self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        """Read on when the client has read what it was sent."""
        assert self._writer is not None
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()
        self._draining = None
        self._last_read = self._loop.time()
        self._connection.resume()

    def relay_to(self, client: asyncio.WriteTransport, writer: AbstractStreamWriter, head: bytes) -> None:
        """Send the head and everything that has come, then everything that comes.

        Raises:
            ConnectionResetError: the client has left.
        """
        if client.is_closing():
            raise ConnectionResetError
        self._client = client
        self._writer = writer
        client.write(head + self._held)
        self._held = b""

    def fail(self, error: UpstreamError) -> None:
        """End the exchange and its connection with an error."""
        self.write_held()
        self._finish()
        for future in (self.ready, self.done):
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever waits gets it; nobody may be waiting any more
        self._connection.abort()

    def _finish(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._draining is not None:
            # it would resume a connection that may carry the next exchange by then
            self._draining.cancel()

    def lost(self, cause: Exception | None) -> None:
        """End an exchange whose connection is gone."""
        if not self._over:
            error = UpstreamError("broken")
            error.__cause__ = cause
            self.fail(error)

    def leave(self) -> None:
        """End an exchange that nobody wants any more; a worker that still generates stops."""
        if not self._over:
            self._held = b""
            self._finish()
            self.ready.cancel()
            self.done.cancel()
            self._connection.abort()


class Outbox:
    """Writes the answers on, a few in each turn of the event loop.

    The tokens of one engine step arrive together. Passed on all at once, they keep a request that
    comes meanwhile waiting for as long as all of them take.
    """

    def __init__(self) -> None:
        self._waiting: collections.deque[Exchange] = collections.deque()

    def add(self, exchange: Exchange) -> None:
        """Write what an exchange holds, after those that came before it."""
        self._waiting.append(exchange)
        if len(self._waiting) == 1:
            self._take_turn()

    def _take_turn(self) -> None:
        asyncio.get_running_loop().call_soon(self._write_some)

    def _write_some(self) -> None:
        count = min(_WRITES_PER_TURN, len(self._waiting))
        exchanges = [self._waiting.popleft() for _ in range(count)]
        if self._waiting:
            self._take_turn()
        for exchange in exchanges:
            exchange.write_held()


class Connection(asyncio.Protocol):
    """One connection to a worker; carries one exchange at a time."""

    def __init__(self, pool: "RelayPool", worker: Worker) -> None:
        self._pool = pool
        self._worker = worker
        self._key = worker.key
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # uvloop's transports have the interface and not the class
        self._transport = cast("asyncio.Transport", transport)
        end_when_silent(self._transport.get_extra_info("socket"), GONE_SECONDS)
        self._pool.opened(self)

    def data_received(self, data: bytes) -> None:
        """Pass the worker's bytes to the exchange."""
        if self._exchange is None:
            self.abort()
        else:
            self._worker.heard = True
            self._exchange.feed(data)

    def eof_received(self) -> bool:
        """Close: the worker says nothing more."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange that was under way."""
        self._pool.forget(self._key, self)
        self._transport = None
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.lost(exc)

    @property
    def usable(self) -> bool:
        """Whether it can carry another exchange."""
        return self._transport is not None and not self._transport.is_closing()

    def begin(self, request: bytes, body: bytes, on_data: Callable[[bytes], None]) -> Exchange:
        """Send a request."""
        assert self._transport is not None
        self._exchange = Exchange(self, self._pool.outbox, on_data)
        self._transport.writelines((request, body))
        return self._exchange

    def exchange_ended(self, *, keep: bool) -> None:
        """Give the connection back, or close it."""
        self._exchange = None
        if keep and self.usable:
            self.resume()
            self._pool.give_back(self._key, self)
        else:
            self.abort()

    def pause(self) -> None:
        """Read nothing for now."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self.usable and self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


class RelayPool:
    """Connections to workers, kept for the next request."""

    def __init__(self, connect_timeout_seconds: float) -> None:
        self._connect_timeout_seconds = connect_timeout_seconds
        self.outbox = Outbox()
        self._idle: dict[str, collections.deque[Connection]] = {}
        self._open: set[Connection] = set()
        self._making: set[asyncio.Task[Connection]] = set()
        self._all_closed = asyncio.Event()
        self._expiry: asyncio.TimerHandle | None = None

    async def send(
        self,
        worker: Worker,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        on_data: Callable[[bytes], None],
        idle_timeout_seconds: float,
    ) -> Exchange:
        """Send a POST and return when its answer's head and first bytes are there.

        Raises:
            UpstreamError: there was no answer.
        """
        request = request_head(worker, path, headers, len(body))
        while True:
            connection = self._take(worker.key)
            reused = connection is not None
            if connection is None:
                connection = await self._connect(worker)
            exchange = connection.begin(request, body, on_data)
            exchange.watch(idle_timeout_seconds)
            try:
                await exchange.ready
            except UpstreamError as error:
                # a worker may close an idle connection just when the request is on its way
                if reused and error.kind == "broken" and not exchange.answered:
                    continue
                raise
            except BaseException:
                exchange.leave()
                raise
            return exchange

    def _take(self, key: str) -> Connection | None:
        idle = self._idle.get(key)
        now = asyncio.get_running_loop().time()
        while idle:
            connection = idle.pop()
            if connection.usable and now - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.abort()
        return None

    async def _connect(self, worker: Worker) -> Connection:
        # Its own task, which neither a client that leaves nor the timeout cancels: under uvloop a connection whose making
        # was cancelled is made nevertheless, stays open and belongs to nobody. The next request gets it.
        making = asyncio.create_task(self._make(worker))
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        try:
            async with asyncio.timeout(self._connect_timeout_seconds):
                return await asyncio.shield(making)
        except TimeoutError:
            making.add_done_callback(self._keep_unclaimed)
            raise UpstreamError("unreachable") from None
        except asyncio.CancelledError:
            making.add_done_callback(self._keep_unclaimed)
            raise

    def _keep_unclaimed(self, making: "asyncio.Future[Connection]") -> None:
        if not making.cancelled() and making.exception() is None:
            making.result().exchange_ended(keep=True)

    async def _make(self, worker: Worker) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(self, worker), worker.host, worker.port
            )
        except OSError as error:
            raise not_connected(error) from None
        return connection

    def give_back(self, key: str, connection: Connection) -> None:
        """Keep a connection for the next request."""
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(key, collections.deque()).append(connection)
        if self._expiry is None:
            self._expiry = loop.call_later(IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        """Close what was idle for too long, also of workers that get no requests any more."""
        loop = asyncio.get_running_loop()
        expired = loop.time() - IDLE_SECONDS
        for idle in self._idle.values():
            while idle and idle[0].idle_since <= expired:
                idle.popleft().abort()
        self._idle = {key: idle for key, idle in self._idle.items() if idle}
        oldest = min((idle[0].idle_since for idle in self._idle.values()), default=None)
        self._expiry = None if oldest is None else loop.call_at(oldest + IDLE_SECONDS, self._close_idle)

    @property
    def open(self) -> int:
        """Number of connections, idle ones included."""
        return len(self._open)

    def opened(self, connection: Connection) -> None:
        """Know about a connection until it is closed."""
        self._open.add(connection)
        self._all_closed.clear()

    def forget(self, key: str, connection: Connection) -> None:
        """Drop a connection that is closed."""
        self._open.discard(connection)
        if not self._open:
            self._all_closed.set()
        with contextlib.suppress(KeyError, ValueError):
            self._idle[key].remove(connection)

    async def stop(self) -> None:
        """Close every connection."""
        if self._expiry is not None:
            self._expiry.cancel()
        await cancelled(*self._making)
        for connection in list(self._open):
            connection.abort()
        if self._open:
            await self._all_closed.wait()
