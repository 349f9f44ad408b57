"""Clients that are slow on purpose, half gone, absurd, or very many."""

import asyncio
import json
import resource
from collections.abc import Iterator
from typing import Any

import pytest

from tests.router.support import LIMIT_SECONDS, PATIENT_SECONDS, Rig, prompt, running, time_passes, until

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


async def connect(rig: Rig) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(rig.cluster.router_host, rig.router.port)


async def everything(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(LIMIT_SECONDS):
        return await reader.read()


async def test_a_body_that_trickles_is_a_408_and_gives_its_place_back() -> None:
    async with running("--body-timeout-seconds", str(PATIENT_SECONDS), "--max-requests", "1") as rig:
        reader, writer = await connect(rig)
        writer.write(HEAD + b'Content-Length: 1000\r\n\r\n{"model":')
        await until(lambda: rig.router.admission.arrived == 1)
        time_passes(PATIENT_SECONDS)
        async with asyncio.timeout(LIMIT_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert (await rig.complete(prompt(10), max_tokens=2)).status == 200
        assert rig.metric("dpd_router_rejected_total", code="body_timeout") == 1
        assert rig.metric("dpd_router_queued_bytes") == 0
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"POST /v1/comp", HEAD])
async def test_a_head_that_never_ends_is_cut(sent: bytes) -> None:
    async with running("--keepalive-timeout-seconds", "0.2") as rig:
        reader, writer = await connect(rig)
        writer.write(sent)
        assert await everything(reader) == b""
        writer.close()


async def test_a_half_closed_connection_is_a_client_that_left() -> None:
    async with running() as rig:
        body = json.dumps(
            {"model": "m", "prompt": prompt(1000), "max_tokens": 10_000, "stream": True, "ignore_eos": True}
        ).encode()
        reader, writer = await connect(rig)
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        async with asyncio.timeout(LIMIT_SECONDS):
            await reader.readuntil(b"data: ")
        writer.write_eof()
        await until(lambda: rig.metric("dpd_router_client_disconnects_total") == 1)
        await until(lambda: rig.metric("dpd_router_worker_requests") == 0)
        await rig.settled()
        assert rig.used_chunks() == [(0,)]
        writer.close()


@pytest.mark.parametrize("token", [-1, 2**40, 2**63, 2**70, 1e300, None])
async def test_absurd_token_ids_are_refused_and_cost_nothing(token: Any) -> None:
    async with running() as rig:
        ids: list[Any] = [*prompt(1000), token]
        answer = await rig.post("/v1/completions", {"model": "m", "prompt": ids, "max_tokens": 3})
        assert 400 <= answer.status < 500
        await rig.settled()
        assert rig.used_chunks() == [(0,)]


@pytest.fixture
def room_for_sockets() -> Iterator[None]:
    """Both ends of every connection are in this process, and many shells allow 1,024 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("room_for_sockets")
async def test_many_idle_connections_keep_nobody_out() -> None:
    async with running() as rig:
        idle = [await connect(rig) for _ in range(500)]
        assert (await rig.complete(prompt(1000), max_tokens=3)).status == 200
        for _, writer in idle:
            writer.close()
        await rig.settled()
