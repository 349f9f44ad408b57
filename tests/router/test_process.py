"""The command as a process of its own: help, wrong settings, SIGTERM and SIGKILL with requests in flight."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from dpd_simulator import Fault, FaultKind, SimulatedCluster
from tests.router.support import LIMIT_SECONDS, PATIENT_FLAGS, prompt

ROOT = Path(__file__).parents[2]


async def start(*arguments: str) -> asyncio.subprocess.Process:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "router")}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dpd_router", *arguments,
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def line_with(process: asyncio.subprocess.Process, text: str) -> str:
    """Read the process's log until a line has a text."""
    assert process.stderr is not None
    async with asyncio.timeout(LIMIT_SECONDS):
        while line := (await process.stderr.readline()).decode():
            if text in line:
                return line
    raise AssertionError(f"`{text}` was not logged")


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    async with SimulatedCluster(prefill=1, decode=1) as made:
        yield made


def flags_for(cluster: SimulatedCluster) -> tuple[str, ...]:
    return (
        "--host", cluster.router_host,
        "--notification-host", cluster.router_host,
        "--prefillers", cluster.prefillers[0].url,
        "--decoders", cluster.decoders[0].url,
        "--decoder-buffer-chunks", "102",
        "--threshold", "512",
        *PATIENT_FLAGS,
    )  # fmt: skip


async def router_for(cluster: SimulatedCluster, *flags: str) -> asyncio.subprocess.Process:
    process = await start(*flags_for(cluster), *flags)
    for _ in range(2):
        await line_with(process, "worker up")
    return process


async def post(session: aiohttp.ClientSession, cluster: SimulatedCluster, tokens: int) -> bytes:
    body = {"model": "m", "prompt": prompt(tokens), "max_tokens": 6, "temperature": 0}
    async with session.post(f"http://{cluster.router_host}:8081/v1/completions", json=body) as response:
        assert response.status == 200
        return await response.read()


async def test_help_and_version() -> None:
    for flag, text in (("--help", b"--decoder-buffer-chunks"), ("--version", b"0.")):
        process = await start(flag)
        out, _ = await process.communicate()
        assert (process.returncode, text in out) == (0, True)


async def test_wrong_settings_are_reported_together() -> None:
    process = await start("--port", "x", "--strategy", "y")
    _, err = await process.communicate()
    assert process.returncode == 2
    assert err.count(b"dpd-router: ") == 5


async def test_port_in_use_ends_with_one_message(cluster: SimulatedCluster) -> None:
    first = await router_for(cluster)
    second = await start(
        "--host", cluster.router_host, "--decoders", cluster.decoders[0].url, "--threshold", "never"
    )
    _, err = await second.communicate()
    assert second.returncode == 1
    assert b"a socket cannot be opened" in err
    assert b'"level":"error"' not in err
    first.terminate()
    await first.communicate()


async def test_full_disk_for_logs_does_not_stop_answers(cluster: SimulatedCluster) -> None:
    with Path("/dev/full").open("wb") as full:  # noqa: ASYNC230 -- a device
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dpd_router", *flags_for(cluster),
            env={**os.environ, "PYTHONPATH": str(ROOT / "router")}, stdout=full, stderr=full,
        )  # fmt: skip
    async with aiohttp.ClientSession() as session:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not await is_ready(session, cluster):  # noqa: ASYNC110 -- another process has no event
                # no line of its log tells: nothing can be written
                await asyncio.sleep(0.05)
        for tokens in (100, 1000):
            assert b'"finish_reason":"length"' in await post(session, cluster, tokens)
    process.terminate()
    assert await process.wait() == 0


async def is_ready(session: aiohttp.ClientSession, cluster: SimulatedCluster) -> bool:
    try:
        async with session.get(f"http://{cluster.router_host}:8081/ready") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


async def test_sigterm_lets_requests_finish(cluster: SimulatedCluster) -> None:
    process = await router_for(cluster)
    await cluster.prefillers[0].add_fault(Fault(kind=FaultKind.HANG))
    async with aiohttp.ClientSession() as session:
        running = asyncio.create_task(post(session, cluster, 1000))
        async with asyncio.timeout(LIMIT_SECONDS):
            while not cluster.prefillers[0].requests.get("/v1/completions"):  # noqa: ASYNC110
                await asyncio.sleep(0)
        process.send_signal(signal.SIGTERM)
        await line_with(process, "router stops")
        await cluster.prefillers[0].remove_faults()
        assert b'"finish_reason":"length"' in await running
    _, err = await process.communicate()
    assert process.returncode == 0
    assert b'"handoffs_left":0' in err
    assert cluster.decoders[0].used_chunks == (0,)


async def test_router_after_a_killed_one_works_beside_what_it_left(cluster: SimulatedCluster) -> None:
    process = await router_for(cluster)
    await cluster.decoders[0].add_fault(Fault(kind=FaultKind.HANG))
    async with aiohttp.ClientSession() as session:
        running = asyncio.create_task(post(session, cluster, 1000))
        async with asyncio.timeout(LIMIT_SECONDS):
            while not cluster.decoders[0].requests.get("/v1/completions"):  # noqa: ASYNC110
                await asyncio.sleep(0)
        process.kill()
        await process.communicate()
        with pytest.raises(aiohttp.ClientError):
            await running
        await cluster.decoders[0].remove_faults()
        following = await router_for(cluster)
        assert b'"finish_reason":"length"' in await post(session, cluster, 1000)
        assert b'"finish_reason":"length"' in await post(session, cluster, 100)
    following.terminate()
    _, err = await following.communicate()
    assert following.returncode == 0
    assert b'"handoffs_left":0' in err
