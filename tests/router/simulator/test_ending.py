"""An engine that ends leaves no connection open, whenever it was made."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

import pytest
import uvloop

from dpd_simulator import SimulatedCluster
from tests.router.support import LIMIT_SECONDS


async def _end_after(rounds: int) -> None:
    async with SimulatedCluster(colocated=1) as cluster:
        (engine,) = cluster.colocated
        # the kernel completes it; the engine has not accepted it yet
        with socket.create_connection((engine.host, engine.config.http_port)) as client:
            client.setblocking(False)
            for _ in range(rounds):
                await asyncio.sleep(0)
            await engine.stop()
            with contextlib.suppress(ConnectionResetError):
                async with asyncio.timeout(LIMIT_SECONDS):
                    assert await asyncio.get_running_loop().sock_recv(client, 1) == b""


@pytest.mark.parametrize("rounds", range(8))
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_connection_made_while_an_engine_ends_is_closed(run: Callable[..., None], rounds: int) -> None:
    run(_end_after(rounds))
