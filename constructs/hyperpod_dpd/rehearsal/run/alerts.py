"""The alerts that fire while a profile runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class Seen:
    """What a Prometheus saw, once the block that it watches has ended."""

    fired: dict[str, str] = field(default_factory=dict)
    """Summary of every alert that has fired, by name."""

    blind_seconds: float = 0.0
    """Real seconds for which nothing was known of a pod, at most."""


@contextlib.asynccontextmanager
async def watched_for_alerts(
    cluster: LocalCluster, deployment: Deployment, options: Options, folder: Path
) -> AsyncIterator[Seen | None]:
    """Let a Prometheus watch the block.

    Yields:
        What it saw, once the block has ended; None: nobody watches.
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
    seen = Seen()
    async with (
        monitoring.running(cluster.alive, cluster.marked, cluster.http),
        beside(_follow(monitoring, cluster), "follow pods"),
    ):
        await asyncio.sleep(_SCRAPES_BEFORE_SECONDS)
        yield seen
        if options.faults:
            await asyncio.sleep(_RULES_AFTER_SECONDS)
        seen.fired.update(monitoring.fired)
    seen.blind_seconds = monitoring.blind_seconds


async def _follow(monitoring: Monitoring, cluster: LocalCluster) -> None:
    """Scrape new pods and forget those that are gone."""
    known: list[str] = []
    while True:
        names = [pod.name for pod in cluster.alive]
        if names != known:
            monitoring.watch(cluster.alive)
            known = names
        await asyncio.sleep(_LOOK_SECONDS)
