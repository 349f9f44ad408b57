"""What nobody may leave behind at the end: hand-offs at the router, chunks in the decoders' buffers."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.faults import Fault
from hyperpod_dpd.rehearsal.run.counters import samples_by_router
from hyperpod_dpd.rehearsal.run.simulator_state import chunks_in_use
from hyperpod_dpd.rehearsal.trouble import READ_LOGS, READ_ROUTER_LOG, Kind, Trouble, trouble
from hyperpod_dpd.spec.value import record

_SETTLE_SECONDS: Final = 90.0
"""Real seconds in which the router clears away what it owns: its grace for late notifications is 30."""

_POLL_SECONDS: Final = 0.2


@record
class Leftover:
    """What was there when traffic was over and everything had time to be cleared away."""

    hand_offs: int | None
    """Hand-offs that the routers still owned; None: one of them did not answer."""

    chunks: Mapping[str, Sequence[int]]
    """Chunks in use in each decoder's PD buffer, by rank."""

    silent: Sequence[str] = ()
    """Simulated engines that did not say what is in their buffers."""


async def settle(cluster: LocalCluster) -> Leftover:
    """Wait until the router owns no hand-off, and return what is left."""
    hand_offs, chunks = await _hand_offs(cluster), await chunks_in_use(cluster)
    engines = [pod.name for pod in cluster.workers] if cluster.engines.simulated else []
    silent = tuple(name for name in engines if name not in chunks)
    return Leftover(hand_offs=hand_offs, chunks=chunks, silent=silent)


async def _hand_offs(cluster: LocalCluster) -> int | None:
    left: int | None = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SETTLE_SECONDS):
            while True:  # a gauge tells nobody when it changes
                told = await samples_by_router(cluster)
                # of one that does not answer nobody knows what it owns
                heard = bool(told) and len(told) == len(cluster.routers)
                left = (
                    int(sum(each.sum("dpd_router_handoffs_open") for each in told.values()))
                    if heard
                    else None
                )
                if left == 0:
                    break
                await asyncio.sleep(_POLL_SECONDS)
    return left


def left_over(node: Node, leftover: Leftover, faults: Sequence[Fault]) -> list[Trouble]:
    """Return what is wrong with what was left.

    Args:
        node: the router in the manifests.
        leftover: what was left.
        faults: what was injected: a router that is killed takes its books with it.
    """
    found = []
    if leftover.hand_offs is None:
        says = "not every router said at the end whether it still owns hand-offs"
        found.append(trouble(Kind.RUNNING, node, says, READ_ROUTER_LOG))
    elif leftover.hand_offs:
        says = f"{leftover.hand_offs} hand-offs were still open at the router when traffic was over"
        fix = "every hand-off is consumed or drained; look for these in the log of the router"
        found.append(trouble(Kind.RUNNING, node, says, fix))
    if leftover.silent:
        listed = ", ".join(f"`{name}`" for name in leftover.silent)
        says = f"engines did not say at the end what is left in their PD buffers: {listed}"
        found.append(trouble(Kind.RUNNING, node, says, READ_LOGS))
    used = {name: max(ranks) for name, ranks in sorted(leftover.chunks.items()) if any(ranks)}
    if used and not any(fault.kind.may_leave_chunks for fault in faults):
        listed = ", ".join(f"`{name}` {count}" for name, count in used.items())
        says = f"chunks were left in the PD buffer of decoders when traffic was over: {listed}"
        fix = (
            "a hand-off that is written and never read stays until the decoder restarts, and a full buffer ends "
            "disaggregation; compare `skip_last_n_tokens`, prefix caching and the router's version with the rendered ones"
        )
        found.append(trouble(Kind.RUNNING, node, says, fix))
    return found
