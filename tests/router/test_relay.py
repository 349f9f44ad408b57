"""The raw relay: framing, broken workers, stale connections, back-pressure."""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self, cast

import pytest
from aiohttp.abc import AbstractStreamWriter
from hypothesis import given
from hypothesis import strategies as st

from dpd_router import sse
from dpd_router.http1 import Framing, Head, request_head
from dpd_router.pool import Role, Worker
from dpd_router.relay import IDLE_SECONDS, Connection, Exchange, Outbox, RelayPool
from dpd_router.upstream import UpstreamError, _open_socket
from tests.router.support import LIMIT_SECONDS, NEVER_SECONDS

CHUNKED_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(position % (len(data) + 1) for position in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges) if start < end]


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    cuts=st.lists(st.integers(0, 10_000), max_size=8),
    trailer=st.booleans(),
)
def test_end_of_a_chunked_body_is_found_however_it_is_cut(
    pieces: list[bytes], cuts: list[int], trailer: bool
) -> None:
    frames = [b"%x;extension=1\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
    body = b"".join(frames) + b"0\r\n" + (b"checksum: 1\r\n" if trailer else b"") + b"\r\n"
    framing = Framing(None)
    for piece in cut(body, cuts):
        assert not framing.ended
        assert framing.feed(piece) == len(piece)
    assert framing.ended


def test_bytes_after_the_end_do_not_belong_to_the_body() -> None:
    framing = Framing(None)
    assert framing.feed(b"1\r\na\r\n0\r\n\r\nHTTP/1.1") == 11
    framing = Framing(3)
    assert (framing.feed(b"ab"), framing.ended) == (2, False)
    assert (framing.feed(b"cd"), framing.ended) == (1, True)
    assert Framing(0).ended


@pytest.mark.parametrize("body", [b"x\r\n", b"-1\r\n", b"\r\n", b"+5\r\n", b"1" * 2000])
def test_what_is_no_chunk_size_is_malformed(body: bytes) -> None:
    with pytest.raises(UpstreamError, match="malformed"):
        Framing(None).feed(body)


def test_head_drops_what_belongs_to_one_connection() -> None:
    raw = (
        CHUNKED_HEAD.removesuffix(b"\r\n\r\n")
        + b"\r\nConnection: close\r\nDate: now\r\nServer: uvicorn\r\nX-A: b"
    )
    head = Head(raw)
    assert (head.status, head.content_type, head.will_close, head.content_length) == (
        200,
        b"text/event-stream",
        True,
        None,
    )
    assert head.for_client(close=False) == (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nX-A: b\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    assert b"\r\nConnection: close\r\n\r\n" in head.for_client(close=True)
    assert b"Content-Length: 7" in Head(b"HTTP/1.1 200 OK\r\nContent-Length: 7").for_client(close=False)
    assert Head(b"HTTP/1.1 204 \r\nContent-Length: 0").content_type == b""


@pytest.mark.parametrize(
    ("pieces", "between"),
    [
        ((), True),
        ((b"2\r\nab\r\n",), True),
        ((b"2\r\nab",), False),
        ((b"2\r\nab\r\n2",), False),
        ((b"2\r\nab\r\n", b"2\r\n"), False),
        ((b"2\r\nab\r\n0\r\n",), False),
        ((b"2\r\na", b"b\r\nZZ\r\n"), False),
    ],
)
def test_a_chunk_may_follow_whole_chunks_only(pieces: tuple[bytes, ...], between: bool) -> None:
    framing = Framing(None)
    with contextlib.suppress(UpstreamError):
        for piece in pieces:
            framing.feed(piece)
    assert framing.between_chunks == between
    assert not Framing(3).between_chunks


@pytest.mark.parametrize(
    "raw", [b"HTTP/1.0 200 OK\r\ncontent-length: 1", b"HTTP/1.1 2x0 OK", b"HTTP/1.1 200 OK", b"x"]
)
def test_heads_without_an_announced_end_are_malformed(raw: bytes) -> None:
    with pytest.raises(UpstreamError, match="malformed"):
        Head(raw)


def test_request_head() -> None:
    worker = Worker(role=Role.DECODE, url="http://10.0.0.1:8000")
    assert request_head(worker, "/v1/x", {"A": "b", "C": "d"}, 3) == (
        b"POST /v1/x HTTP/1.1\r\nHost: 10.0.0.1:8000\r\nContent-Length: 3\r\nA: b\r\nC: d\r\n\r\n"
    )


# connections

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A worker that does what a test says with each connection."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.connections = 0

    async def __aenter__(self) -> Self:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            try:
                await self._handler(reader, writer)
            finally:
                writer.close()

        self._server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.worker = Worker(role=Role.DECODE, url=f"http://127.0.0.1:{port}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()


@pytest.fixture
async def relays() -> AsyncIterator[RelayPool]:
    pool = RelayPool(LIMIT_SECONDS)
    yield pool
    await pool.stop()


async def send(relays: RelayPool, worker: Worker, **options: Any) -> bytes:
    got = bytearray()
    exchange = await relays.send(
        worker, "/", {}, b"body", on_data=got.extend, idle_timeout_seconds=options.get("idle", LIMIT_SECONDS)
    )
    await exchange.done
    return bytes(got)


async def read_request(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(4)


@pytest.fixture
def never_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections stay usable, however long this machine stands still."""
    monkeypatch.setattr("dpd_router.relay.IDLE_SECONDS", NEVER_SECONDS)


@pytest.mark.usefixtures("never_idle")
async def test_connection_is_used_again(relays: RelayPool) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with Server(handler) as server:
        assert [await send(relays, server.worker) for _ in range(3)] == [b"ok"] * 3
        assert server.connections == 1


async def test_stale_connection_is_replaced(relays: RelayPool) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        # the second request of a connection meets a close, as with a keep-alive that has just run out
        await reader.readuntil(b"\r\n\r\n")

    async with Server(handler) as server:
        assert await send(relays, server.worker) == b"ok"
        assert await send(relays, server.worker) == b"ok"
        assert server.connections == 2


async def test_idle_connection_is_not_kept_beyond_the_worker_s_keep_alive(relays: RelayPool) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with Server(handler) as server:
        await send(relays, server.worker)
        (connection,) = relays._idle[server.worker.key]
        connection.idle_since -= IDLE_SECONDS + 1
        await send(relays, server.worker)
        assert server.connections == 2


async def test_close_after_the_answer_is_respected(relays: RelayPool) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")

    async with Server(handler) as server:
        await send(relays, server.worker)
        await send(relays, server.worker)
        assert server.connections == 2


@pytest.mark.parametrize("together", [True, False])
async def test_interim_answers_are_not_the_answer(relays: RelayPool, together: bool) -> None:
    heads = (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
    whole = (*heads, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in [b"".join(whole)] if together else whole:
            writer.write(piece)
            await writer.drain()

    async with Server(handler) as server:
        assert await send(relays, server.worker) == b"ok"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", "broken"),
        (b"HTTP/1.1 200 OK\r\n", "broken"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "broken"),
        (CHUNKED_HEAD, "broken"),
        (CHUNKED_HEAD + b"5\r\nab", "broken"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nmore than that", "malformed"),
        (b"SSH-2.0\r\n\r\n", "malformed"),
        (b"x" * 100_000, "malformed"),
    ],
)
async def test_broken_answers(relays: RelayPool, answer: bytes, kind: str) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)

    async with Server(handler) as server:
        with pytest.raises(UpstreamError, match=kind):
            await send(relays, server.worker)


async def test_a_worker_s_machine_that_is_gone_is_noticed(relays: RelayPool) -> None:
    """What the kernel is told; a machine that vanishes cannot be had in a test."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await reader.read()

    async with Server(handler) as server:
        await send(relays, server.worker)
        (connection,) = relays._open
        assert connection._transport is not None
        used = connection._transport.get_extra_info("socket")
        own = _open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0)))
        for sock in (used, own):
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            options = (socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
            assert [sock.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [30_000, 15, 5]
        own.close()
        await relays.stop()


async def test_silence_is_a_timeout(relays: RelayPool) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED_HEAD + b"1\r\na\r\n")
        await reader.read()

    async with Server(handler) as server:
        with pytest.raises(UpstreamError, match="timeout"):
            await send(relays, server.worker, idle=0.1)


async def test_nobody_listening_is_refused(relays: RelayPool) -> None:
    # held without listening: a port that is only free now may be somebody's a moment later
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(UpstreamError, match="refused") as caught:
            await send(relays, Worker(role=Role.DECODE, url=url))
    assert caught.value.unsent


async def test_leaving_closes_the_connection(relays: RelayPool) -> None:
    closed = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED_HEAD + b"1\r\na\r\n")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        closed.set()

    async with Server(handler) as server:
        exchange = await relays.send(
            server.worker, "/", {}, b"body", on_data=lambda _: None, idle_timeout_seconds=60
        )
        exchange.leave()
        async with asyncio.timeout(LIMIT_SECONDS):
            await closed.wait()


async def test_a_request_that_is_cancelled_within_its_answer_closes_the_connection(relays: RelayPool) -> None:
    closed = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED_HEAD + b"1\r\na\r\n")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        closed.set()

    async with Server(handler) as server:
        exchange = await relays.send(
            server.worker, "/", {}, b"body", on_data=lambda _: None, idle_timeout_seconds=60
        )
        with contextlib.suppress(TimeoutError):
            # the cancellation ends the future that is waited for, too
            async with asyncio.timeout(0):
                await exchange.done
        assert exchange.done.cancelled()
        exchange.leave()
        async with asyncio.timeout(LIMIT_SECONDS):
            await closed.wait()
            await relays.stop()


@pytest.mark.usefixtures("never_idle")
async def test_an_answer_that_ends_after_its_request_was_cancelled_gives_its_connection_back(
    relays: RelayPool,
) -> None:
    go_on = asyncio.Event()
    ended = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED_HEAD + b"1\r\na\r\n")
        await go_on.wait()
        writer.write(b"0\r\n\r\n")
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    def on_data(data: bytes) -> None:
        if data.endswith(b"0\r\n\r\n"):
            ended.set()

    async with Server(handler) as server:
        exchange = await relays.send(
            server.worker, "/", {}, b"body", on_data=on_data, idle_timeout_seconds=60
        )
        exchange.done.cancel()
        go_on.set()
        async with asyncio.timeout(LIMIT_SECONDS):
            await ended.wait()
        exchange.leave()
        assert await send(relays, server.worker) == b"ok"
        assert server.connections == 1


async def test_idle_connections_are_closed_without_another_request(
    relays: RelayPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpd_router.relay.IDLE_SECONDS", 0.05)
    closed = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await reader.read()
        closed.set()

    async with Server(handler) as server:
        await send(relays, server.worker)
        async with asyncio.timeout(LIMIT_SECONDS):
            await closed.wait()
            await relays.stop()
        assert not relays._idle


# the way to the client


class Client(asyncio.WriteTransport):
    """A client's connection that keeps what it gets."""

    def __init__(self, writes: list[bytes]) -> None:
        super().__init__()
        self._writes = writes

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._writes.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0


async def exchanges(count: int, writes: list[bytes]) -> list[Exchange]:
    """Begin answers whose heads are written."""
    pool = RelayPool(LIMIT_SECONDS)
    outbox = Outbox()
    made = [
        Exchange(Connection(pool, Worker(role=Role.DECODE, url="http://worker:8000")), outbox, lambda _: None)
        for _ in range(count)
    ]
    for exchange in made:
        exchange.feed(CHUNKED_HEAD + b"1\r\na\r\n")
        exchange.relay_to(Client(writes), cast("AbstractStreamWriter", None), b"")
    writes.clear()
    return made


async def test_tokens_that_come_together_are_written_over_several_turns() -> None:
    writes: list[bytes] = []
    made = await exchanges(5, writes)
    chunks = [b"1\r\n%d\r\n" % number for number in range(5)]
    for exchange, chunk in zip(made, chunks, strict=True):
        exchange.feed(chunk)
    so_far = []
    for _ in range(4):
        so_far.append(len(writes))
        await asyncio.sleep(0)
    assert so_far == [0, 2, 4, 5]
    assert writes == chunks


async def test_what_comes_before_its_turn_is_one_write_and_the_end_does_not_wait() -> None:
    writes: list[bytes] = []
    made = await exchanges(4, writes)
    for _ in range(2):
        for exchange in made:
            exchange.feed(b"1\r\nb\r\n")
    made[3].feed(b"0\r\n\r\n")
    assert writes == [b"1\r\nb\r\n" * 2 + b"0\r\n\r\n"]
    assert made[3].done.done()
    made[2].fail(UpstreamError("broken"))
    made[1].leave()
    for _ in range(4):
        await asyncio.sleep(0)
    # the one that failed before its turn, and the first; nothing of the one that was left
    assert writes[1:] == [b"1\r\nb\r\n" * 2] * 2


async def test_more_than_a_client_s_buffer_does_not_wait_for_its_turn() -> None:
    writes: list[bytes] = []
    (exchange,) = await exchanges(1, writes)
    large = b"%x\r\n" % (1 << 20) + b"x" * (1 << 20) + b"\r\n"
    exchange.feed(large)
    assert writes == [large]


# events


@given(
    events=st.lists(st.text(alphabet="ab {}", max_size=12), max_size=6),
    cuts=st.lists(st.integers(0, 999), max_size=8),
)
def test_events_are_found_however_they_are_cut(events: list[str], cuts: list[int]) -> None:
    for newline in ("\n", "\r\n"):
        data = "".join(f": ping{newline}data: {event}{newline}{newline}" for event in events).encode()
        splitter = sse.EventSplitter()
        found = [event for piece in cut(data, cuts) for event in splitter.feed(piece)]
        assert found == [event.encode() for event in events]
        assert splitter.rest == b""


def test_events_without_data_are_not_events() -> None:
    assert list(sse.EventSplitter().feed(b": ping\n\nevent: x\n\ndata: a\ndata:b\n\n")) == [b"a\nb"]


def test_event_without_an_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    with pytest.raises(UpstreamError, match="malformed"):
        list(sse.EventSplitter().feed(b"data: " + b"x" * 200))
