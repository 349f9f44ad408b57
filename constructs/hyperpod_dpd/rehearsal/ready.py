"""Waiting until everything in a cluster is there, and what is said of what is not."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Final

from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.metrics import scrape
from hyperpod_dpd.rehearsal.pod import LocalPod
from hyperpod_dpd.rehearsal.process import tail
from hyperpod_dpd.rehearsal.trouble import Kind, RefusedError, Trouble, trouble

_CRASHES: Final = 3
"""Ends in a row after which nobody waits any more for a container to become ready."""

_POLL_SECONDS: Final = 0.1


async def until_all_ready(cluster: LocalCluster, timeout_seconds: float) -> None:
    """Wait until every pod is ready; not for one that has crashed again and again.

    Raises:
        RefusedError: with what every pod that crashes, or else that is not ready, said last.
    """
    begin = time.monotonic()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_seconds):
            while _late(cluster) and not _crashing(cluster):
                await cluster.next_change()
    if late := _crashing(cluster) or _late(cluster):
        seconds = time.monotonic() - begin
        raise RefusedError(tuple(_not_ready(pod, seconds) for pod in late))


async def until_all_routed(cluster: LocalCluster, timeout_seconds: float) -> None:
    """Wait until every router gives requests to every worker: it takes each in after two good checks of its own.

    Raises:
        RefusedError: a worker is not taken in.
    """
    workers = len(cluster.workers)
    for router in cluster.routers:
        up: float = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while up < workers:  # the router tells nobody when a worker is up
                    await asyncio.sleep(_POLL_SECONDS)
                    samples = await scrape(cluster.http, router.router_url)
                    up = samples.sum("dpd_router_worker_up") if samples else 0
        if up < workers:
            raise RefusedError(
                (
                    trouble(
                        Kind.RUNNING,
                        router.plan.pod.node,
                        f"{router.plan.router} gives requests to {up:.0f} of {workers} workers after "
                        f"{timeout_seconds:g} s",
                        "compare its `--namespace`, `--prefill-service` and `--decode-service` with the Services",
                    ),
                )
            )


def _late(cluster: LocalCluster) -> Sequence[LocalPod]:
    return [pod for pod in cluster.alive if not pod.ready]


def _crashing(cluster: LocalCluster) -> Sequence[LocalPod]:
    return [
        pod for pod in _late(cluster) if any(container.crashes >= _CRASHES for container in pod.containers)
    ]


def _not_ready(pod: LocalPod, seconds: float) -> Trouble:
    logs = "\n".join(
        f"  | {line}" for each in pod.containers for line in tail(each.log).splitlines() if not each.ready
    )
    return trouble(
        Kind.RUNNING,
        pod.plan.pod.node,
        f"pod of {pod.plan.owner.title} is not ready after {seconds:.0f} s: {pod.trouble()}",
        f"read its log:\n{logs}" if logs else "look at its probes",
    )
