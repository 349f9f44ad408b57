"""What clients' connections may do to the router, and what it gives away of them."""

import asyncio
import gzip
import json
import logging
import resource
import socket
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from dpd_router import files
from dpd_router.config import ConfigError, load
from dpd_router.router import Router
from dpd_simulator import SimulatedCluster
from tests.router.support import LIMIT_SECONDS, PATIENT_FLAGS, Rig, prompt, running, serving, until

BODY = json.dumps({"model": "m", "prompt": prompt(10), "max_tokens": 2, "temperature": 0}).encode()
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
SECRET = "sk-nobody-may-read-this"


async def connect(rig: Rig) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(rig.cluster.router_host, rig.router.port)


async def exchange(rig: Rig, sent: bytes) -> bytes:
    """Send bytes and return everything that comes until the end of the connection."""
    reader, writer = await connect(rig)
    writer.write(sent)
    async with asyncio.timeout(LIMIT_SECONDS):
        received = await reader.read()
    writer.close()
    return received


def with_body(body: bytes, *lines: bytes) -> bytes:
    return (
        HEAD + b"".join(line + b"\r\n" for line in lines) + b"Content-Length: %d\r\n\r\n" % len(body) + body
    )


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"Authorization: Bearer " + SECRET.encode() + b"\0\r\n\r\n",
        HEAD + b"X: " + SECRET.encode() * 1000 + b"\r\n\r\n",
        # its client announces less than it sends: the rest of the prompt is read as the next request
        b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" + SECRET.encode() + b" x\r\n\r\n",
        b"\x16\x03\x01" + SECRET.encode() + b"\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused_and_quoted_nowhere(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with running() as rig:
        answer = await exchange(rig, sent)
        assert b" 400 Bad Request\r\n" in answer
        assert json.loads(answer.rpartition(b"\r\n\r\n")[2])["error"]["code"] == "malformed_http"
        assert SECRET.encode() not in answer
        assert rig.metric("dpd_router_rejected_total", code="malformed_http") == 1
    assert SECRET not in caplog.text
    assert "Traceback" not in caplog.text
    assert [record.levelname for record in caplog.records if record.message == "malformed request"] == [
        "INFO"
    ]


async def test_an_error_of_the_router_is_told_in_openai_s_form(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as rig:

        def fail(_: object) -> None:
            raise RuntimeError

        monkeypatch.setattr("dpd_router.app.parse_body", fail)
        answer = await exchange(rig, with_body(BODY))
        assert answer.startswith(b"HTTP/1.1 500 ")
        assert json.loads(answer.rpartition(b"\r\n\r\n")[2])["error"]["code"] == "internal_error"


async def test_a_client_that_waits_to_be_told_is_told_to_send_its_body() -> None:
    async with running() as rig:
        reader, writer = await connect(rig)
        writer.write(HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
        async with asyncio.timeout(LIMIT_SECONDS):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(BODY)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_who_is_refused_is_not_told_to_send() -> None:
    async with running("--max-body-bytes", "10") as rig:
        reader, writer = await connect(rig)
        writer.write(HEAD + b"Expect: 100-continue\r\nContent-Length: 11\r\n\r\n")
        async with asyncio.timeout(LIMIT_SECONDS):
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        writer.close()


async def test_a_compressed_body_reaches_the_worker_as_what_it_is_then() -> None:
    async with echo() as (rig, seen):
        answer = await exchange(rig, with_body(gzip.compress(BODY), b"Content-Encoding: gzip"))
        assert answer.startswith(b"HTTP/1.1 200 ")
        (request,) = seen
        assert (await request.read(), request.headers.get("Content-Encoding")) == (BODY, None)


@pytest.mark.parametrize(
    "sent",
    [
        with_body(b"no gzip at all", b"Content-Encoding: gzip"),
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}ZZ\r\n",
    ],
)
async def test_a_body_in_a_wrong_wrapping_is_the_client_s_error(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as rig:
        answer = await exchange(rig, sent)
        assert b" 400 Bad Request\r\n" in answer
        assert rig.metric("dpd_router_queued_bytes") == 0
    assert "Traceback" not in caplog.text


async def test_headers_that_come_in_several_lines_all_go_on() -> None:
    async with echo() as (rig, seen):
        await exchange(rig, with_body(BODY, b"tracestate: a=1", b"X-Other: 1", b"Tracestate: b=2"))
        assert seen[0].headers.getall("tracestate") == ["a=1", "b=2"]


@pytest.mark.parametrize("given", [None, "client-7"])
async def test_every_answer_names_its_request(given: str | None) -> None:
    async with echo() as (rig, seen):
        lines = [] if given is None else [b"X-Request-Id: " + given.encode()]
        answer = await exchange(rig, with_body(BODY, *lines))
        sent = seen[0].headers["X-Request-Id"]
        assert given in {None, sent}
        assert answer.partition(b"\r\n\r\n")[0].count(b"X-Request-Id: " + sent.encode()) == 1


class echo:  # noqa: N801 -- reads as the function that it stands for
    """A router in front of a worker that keeps the requests that it gets."""

    def __init__(self, post: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None) -> None:
        self._post = post

    async def __aenter__(self) -> tuple[Rig, list[web.Request]]:
        self._cluster = SimulatedCluster()
        seen: list[web.Request] = []

        async def answer(request: web.Request) -> web.StreamResponse:
            if self._post is not None and request.method == "POST":
                return await self._post(request)
            if request.path == "/v1/models":
                return web.json_response({"data": [{"id": "m"}]})
            if request.method == "POST":
                await request.read()
                seen.append(request)
            return web.json_response({})

        application = web.Application()
        application.router.add_route("*", "/{path:.*}", answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._cluster.router_host, 0).start()
        url = f"http://{self._cluster.router_host}:{self._runner.addresses[0][1]}"
        flags = [
            "--host",
            self._cluster.router_host,
            "--decoders",
            url,
            "--threshold",
            "never",
            *PATIENT_FLAGS,
        ]
        self._serving = serving(Router(load(flags, {}), {}), self._cluster, workers=1)
        return await self._serving.__aenter__(), seen

    async def __aexit__(self, *_: object) -> None:
        await self._serving.__aexit__(None, None, None)
        await self._runner.cleanup()


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (b"5\r\ndata:\r\n", b'data: {"error":{"message":"the decoder ended before its answer did"'),
        (b"5\r\ndata:\r\n50\r\nhalf a chu", None),
    ],
)
async def test_nothing_is_put_into_the_middle_of_a_lost_decoder_s_chunk(
    sent: bytes, shown: bytes | None
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def cut_off(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        await request.read()
        request.transport.write(head + sent)
        request.transport.close()
        return web.Response()

    async with echo(cut_off) as (rig, _):
        answer = await exchange(rig, with_body(BODY))
        body = answer.partition(b"\r\n\r\n")[2]
        assert body.startswith(sent)
        rest = body.removeprefix(sent)
        assert rest == b"" if shown is None else shown in rest


async def test_a_client_that_takes_nothing_gives_its_place_back() -> None:
    async with running("--stall-seconds", "1", "--max-requests", "1") as rig:
        request = {
            "model": "m",
            "prompt": prompt(10),
            "max_tokens": 16_000,
            "stream": True,
            "ignore_eos": True,
        }
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        client.connect((rig.cluster.router_host, rig.router.port))
        client.sendall(with_body(json.dumps(request).encode()))
        await until(lambda: rig.router.admission.requests == 1)
        await until(lambda: rig.router.admission.requests == 0)
        assert rig.metric("dpd_router_client_disconnects_total") == 1
        client.close()
        await until(lambda: rig.metric("dpd_router_worker_requests") == 0)


async def test_connections_that_wait_or_trickle_make_room_for_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dpd_router.router.client_connections", lambda _: 3)
    serve, served = asyncio.Event(), asyncio.Event()

    async def held(request: web.Request) -> web.StreamResponse:
        await request.read()
        served.set()
        await serve.wait()
        return web.json_response({})

    async with echo(held) as (rig, _):
        busy_reader, busy = await connect(rig)
        busy.write(with_body(BODY))
        idle_reader, idle = await connect(rig)
        trickling_reader, trickling = await connect(rig)
        trickling.write(HEAD + b"Content-Length: 100\r\n\r\n{")
        async with asyncio.timeout(LIMIT_SECONDS):
            await served.wait()
            await until(lambda: rig.router.admission.arrived == 2)
            others = [await connect(rig) for _ in range(2)]
            assert await idle_reader.read() == await trickling_reader.read() == b""
            serve.set()
            assert (await busy_reader.readline()).startswith(b"HTTP/1.1 200 ")
        assert rig.metric("dpd_router_evicted_connections_total") == 2
        for _, writer in (*others, (None, idle), (None, trickling), (None, busy)):
            writer.close()


async def test_a_body_that_trickles_takes_no_place_from_others() -> None:
    async with running("--max-requests", "1") as rig:
        slow_reader, slow = await connect(rig)
        slow.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY[:5])
        await until(lambda: rig.router.admission.arrived == 1)
        assert (await rig.complete(prompt(10), max_tokens=2)).status == 200
        slow.write(BODY[5:])
        async with asyncio.timeout(LIMIT_SECONDS):
            assert (await slow_reader.readline()).startswith(b"HTTP/1.1 200 ")
        slow.close()


def test_files_are_for_requests_first(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    assert files.client_connections(1024) == 4096 - 2 * 1024 - files.RESERVED_FILES
    assert given == [(4096, 4096)]
    with pytest.raises(ConfigError) as error:
        files.client_connections(2000)
    assert "needs 6256 open files" in str(error.value)
    assert "may have 4096" in str(error.value)
