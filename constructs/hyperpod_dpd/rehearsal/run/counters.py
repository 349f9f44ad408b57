"""What routers count."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import reduce
from typing import Final

from hyperpod_dpd.rehearsal.beside import beside
from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.metrics import NOTHING, Samples, scrape

_INTERVAL_SECONDS: Final = 0.5
"""What a process counts in its last moments is lost with it."""


async def router_samples(cluster: LocalCluster) -> Samples:
    """Return what the routers that are there say, added up."""
    return reduce(Samples.plus, (await samples_by_router(cluster)).values(), NOTHING)


class RouterCounters:
    """What routers count, over restarts of their processes and over pods that replace each other."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._seen: dict[str, Samples] = {}
        self.grown = NOTHING
        """What has been counted within `counting`."""

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[None]:
        """Count from the beginning of the block to its end."""
        self._seen = await samples_by_router(self._cluster)
        async with beside(self._follow(), "count decisions"):
            yield
        await self._look()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            await self._look()

    async def _look(self) -> None:
        for name, samples in (await samples_by_router(self._cluster)).items():
            self.grown = self.grown.plus(samples.since(self._seen.get(name, NOTHING)))
            self._seen[name] = samples


async def samples_by_router(cluster: LocalCluster) -> dict[str, Samples]:
    """Return what each router that answers says, by the name of its pod."""
    found = {pod.name: await scrape(cluster.http, pod.router_url) for pod in cluster.routers}
    return {name: samples for name, samples in found.items() if samples is not None}
