"""A client that leaves while the router connects to a worker leaves no connection that belongs to nobody."""

import asyncio

import uvloop

from dpd_router.pool import Role, Worker
from dpd_router.relay import RelayPool
from dpd_simulator import SimulatedCluster


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
        async with asyncio.timeout(5):
            await pool.stop()
        return left


def test_clients_that_leave_while_connecting_leave_no_connection() -> None:
    assert uvloop.run(_connections_left()) <= 2
