"""The alerts that fire while a profile runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from hyperpod_dpd.rehearsal.beside import beside
from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.prometheus import Monitoring, program
from hyperpod_dpd.spec import Deployment

_SCRAPES_BEFORE_SECONDS: Final = 4.0
"""Real seconds of scrapes before the first request: rates need two points."""

_RULES_AFTER_SECONDS: Final = 12.0
"""Real seconds after a fault's traffic in which rules with a window of five minutes still speak."""

_LOOK_SECONDS: Final = 0.5


@contextlib.asynccontextmanager
async def watched_for_alerts(
    cluster: LocalCluster, deployment: Deployment, options: Options, folder: Path
) -> AsyncIterator[dict[str, str] | None]:
    """Let a Prometheus watch the block.

    Yields:
        Summary of every alert that has fired, by name, once the block has ended; None: nobody watches.
    """
    if not options.monitors or program() is None:
        yield None
        return
    monitoring = Monitoring(
        deployment,
        folder=folder,
        host=cluster.addresses.monitoring,
        disaggregates=cluster.plan.disaggregates,
    )
    fired: dict[str, str] = {}
    async with (
        monitoring.running(cluster.alive, cluster.marked, cluster.http),
        beside(_follow(monitoring, cluster), "follow pods"),
    ):
        await asyncio.sleep(_SCRAPES_BEFORE_SECONDS)
        yield fired
        if options.faults:
            await asyncio.sleep(_RULES_AFTER_SECONDS)
        fired.update(monitoring.fired)


async def _follow(monitoring: Monitoring, cluster: LocalCluster) -> None:
    """Scrape new pods and forget those that are gone."""
    known: list[str] = []
    while True:
        names = [pod.name for pod in cluster.alive]
        if names != known:
            monitoring.watch(cluster.alive)
            known = names
        await asyncio.sleep(_LOOK_SECONDS)
