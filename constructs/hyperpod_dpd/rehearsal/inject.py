"""Make faults happen."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import aiohttp

from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.faults import CLIENT_DISCONNECTS, ROLLING_RESTART, Fault
from hyperpod_dpd.rehearsal.pod import LocalPod
from hyperpod_dpd.spec import Role

_REPLACEMENT_SECONDS: Final = 5.0
"""Until a lost pod has a successor. On a cluster it takes minutes: a node must be replaced and weights loaded."""


async def _hit(cluster: LocalCluster, role: Role) -> list[LocalPod]:
    """Return the pods of `role`; where another fault has just taken the last one, wait for its successor."""
    while not (found := cluster.with_role(role)):
        await cluster.next_change()
    return found


async def _decoder_crash(cluster: LocalCluster, _: float) -> None:
    await cluster.lose((await _hit(cluster, Role.DECODE))[0], replaced_after_seconds=_REPLACEMENT_SECONDS)


async def _decoder_restart_in_place(cluster: LocalCluster, _: float) -> None:
    for container in (await _hit(cluster, Role.DECODE))[0].containers:
        container.kill()


async def _router_restart(cluster: LocalCluster, _: float) -> None:
    for pod in cluster.routers:
        for container in pod.containers:
            container.kill()


async def _rolling_restart(cluster: LocalCluster, _: float) -> None:
    for pod in sorted(cluster.alive, key=lambda each: each.plan.router is not None):
        fresh = await cluster.evict(pod)
        await cluster.until_ready(fresh)


async def _prefill_slow(cluster: LocalCluster, factor: float) -> None:
    await _switch_on(cluster, Role.PREFILL, {"kind": "slow", "factor": factor})


async def _notify_loss(cluster: LocalCluster, share: float) -> None:
    # one of the ranks is enough to keep a hand-off waiting, so that the share is one of hand-offs
    await _switch_on(cluster, Role.PREFILL, {"kind": "notification-lost", "probability": share, "rank": 0})


async def _nothing(_cluster: LocalCluster, _value: float) -> None:
    """Clients that leave are a matter of the clients."""


async def _switch_on(cluster: LocalCluster, role: Role, fault: Mapping[str, str | float]) -> None:
    for pod in await _hit(cluster, role):
        await cluster.until_ready(pod)
        async with cluster.http.post(_faults_url(pod), json=[fault]) as answer:
            answer.raise_for_status()


def _faults_url(pod: LocalPod) -> str:
    return f"{pod.engine_url}/simulator/faults"


_ACTIONS: Final[Mapping[str, Callable[[LocalCluster, float], Awaitable[None]]]] = {
    "decoder-crash": _decoder_crash,
    "decoder-restart-in-place": _decoder_restart_in_place,
    "prefill-slow": _prefill_slow,
    "notify-loss": _notify_loss,
    "router-restart": _router_restart,
    ROLLING_RESTART: _rolling_restart,
    CLIENT_DISCONNECTS: _nothing,
}
"""What makes each kind of fault happen; the number is its value."""


async def remove_faults(cluster: LocalCluster) -> None:
    """Switch off what still goes wrong in the engines."""
    for pod in cluster.workers:
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with cluster.http.delete(_faults_url(pod)) as answer:
                answer.raise_for_status()


async def inject(fault: Fault, cluster: LocalCluster) -> None:
    """Wait for the fault's time, and make it happen."""
    await asyncio.sleep(fault.at_seconds)
    cluster.events.append(f"fault {fault}")
    await _ACTIONS[fault.kind.name](cluster, fault.value)
