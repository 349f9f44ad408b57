"""No connection to a worker belongs to nobody: not where a client leaves, nor where a timeout ends, while it is made."""

import asyncio
import contextlib

import pytest
import uvloop

from dpd_router.pool import Role, Worker
from dpd_router.relay import RelayPool
from dpd_router.upstream import UpstreamError
from dpd_simulator import SimulatedCluster
from tests.router.support import LIMIT_SECONDS


async def _leave_at_every_turn(pool: RelayPool, worker: Worker) -> None:
    """Cancel a request after each number of loop iterations that making a connection can take."""
    for turns in range(40):
        sending = asyncio.create_task(
            pool.send(worker, "/v1/x", {}, b"", on_data=lambda data: None, idle_timeout_seconds=5)
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _connections_left() -> int:
    async with SimulatedCluster(colocated=1) as cluster:
        engine = cluster.colocated[0]
        worker = Worker(role=Role.DECODE, url=engine.url)
        pool = RelayPool(2.0)
        for _ in range(5):
            await _leave_at_every_turn(pool, worker)
        # one at a time was wanted, so one is kept for the next request; more would belong to nobody
        left = len(pool._open)
        async with asyncio.timeout(LIMIT_SECONDS):
            await pool.stop()
        return left


def test_clients_that_leave_while_connecting_leave_no_connection() -> None:
    assert uvloop.run(_connections_left()) <= 2


async def _left_after_timeouts(requests: int) -> int:
    closed = asyncio.Semaphore(0)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        closed.release()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    worker = Worker(role=Role.DECODE, url=f"http://127.0.0.1:{port}")
    pool = RelayPool(0.0)
    for _ in range(requests):
        with pytest.raises(UpstreamError, match="unreachable"):
            await pool.send(worker, "/v1/x", {}, b"", on_data=lambda data: None, idle_timeout_seconds=5)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LIMIT_SECONDS):
            for _ in range(requests):
                await closed.acquire()
    server.close()
    return pool.open


def test_connections_that_are_made_after_their_timeout_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpd_router.relay.IDLE_SECONDS", 0.05)
    loop = uvloop.new_event_loop()
    assert loop.run_until_complete(_left_after_timeouts(requests=3)) == 0
    loop.close()  # which would wait for ever for a connection that nobody closes
