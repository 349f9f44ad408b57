"""What routers count is added up over restarts and over pods that replace each other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
from aiohttp import web

from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.run.counters import RouterCounters, router_samples
from tests.rehearsal.support import LIMIT_SECONDS

NAME = "dpd_router_decisions_total"


@dataclass
class Routers:
    """Routers by name, each with what it has counted."""

    counted: dict[str, int] = field(default_factory=dict)
    looks: asyncio.Condition = field(default_factory=asyncio.Condition)
    seen: dict[str, int] = field(default_factory=dict)

    async def answer(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        async with self.looks:
            self.seen[name] = self.counted[name]
            self.looks.notify_all()
        return web.Response(text=f'{NAME}{{decision="direct"}} {self.counted[name]}\n')

    async def becomes(self, **counted: int) -> None:
        """Let there be these routers with these counts, and wait until all have been looked at."""
        self.counted = counted
        async with self.looks:
            await self.looks.wait_for(lambda: counted.items() <= self.seen.items())


@asynccontextmanager
async def cluster_of(routers: Routers) -> AsyncIterator[LocalCluster]:
    """Serve what the routers say, and return as much of a cluster as is asked for it."""
    app = web.Application()
    app.router.add_get("/{name}/metrics", routers.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]

    class Cluster:
        def __init__(self, http: aiohttp.ClientSession) -> None:
            self.http = http

        @property
        def routers(self) -> list[Any]:
            return [
                SimpleNamespace(name=name, router_url=f"http://{host}:{port}/{name}")
                for name in routers.counted
            ]

    try:
        async with aiohttp.ClientSession() as http:
            yield cast(LocalCluster, Cluster(http))
    finally:
        await runner.cleanup()


async def test_counters_grow_over_restarts_and_replacements() -> None:
    routers = Routers({"first": 100})
    async with asyncio.timeout(LIMIT_SECONDS), cluster_of(routers) as cluster:
        counters = RouterCounters(cluster)
        async with counters.counting():
            await routers.becomes(first=107)
            await routers.becomes(first=2)  # its process has started again
            await routers.becomes(second=5)  # another pod in its place
            routers.counted = {"second": 6}
        assert counters.grown.sum(NAME) == 7 + 2 + 6
        assert (await router_samples(cluster)).sum(NAME) == 6
