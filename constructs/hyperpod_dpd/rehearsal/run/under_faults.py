"""Mixed traffic while faults happen, until requests are answered again."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from itertools import islice
from typing import Final

import aiohttp

from hyperpod_dpd.planner.workload import FixedLengths
from hyperpod_dpd.rehearsal.faults import CLIENT_DISCONNECTS, Fault
from hyperpod_dpd.rehearsal.inject import inject, remove_faults
from hyperpod_dpd.rehearsal.measure import Measurement, observe
from hyperpod_dpd.rehearsal.prompts import Request
from hyperpod_dpd.rehearsal.ready import until_all_ready, until_all_routed
from hyperpod_dpd.rehearsal.run.counters import RouterCounters, router_samples
from hyperpod_dpd.rehearsal.run.running import MIXED_SEED, RunningProfile
from hyperpod_dpd.rehearsal.traffic import Answer, Clients
from hyperpod_dpd.rehearsal.trouble import READ_LOGS, Kind, RefusedError, Trouble

_GREETING_SEED: Final = 900_002
_GREETING_TOKENS: Final = 2
"""A hand-off needs two at least."""

_POLL_SECONDS: Final = 0.1

_TRIED_AGAIN: Final = ("dpd_router_pairs_broken", "dpd_router_worker_hung")
_RECOVERY_SECONDS: Final = 330.0
"""Real seconds; by its default the router tries a pair again after one minute and a prefiller after five."""

_RECOVERY_PAUSE_SECONDS: Final = 5.0


async def run_under_faults(running: RunningProfile) -> tuple[Measurement, tuple[Trouble, ...]]:
    """Return what mixed traffic was like while the faults happened, and what did not come to its end.

    Pairs and prefillers that the router has given up are tried again before this returns.
    """
    options = running.options
    leaving = sum(fault.value for fault in options.faults if fault.kind.name == CLIENT_DISCONNECTS)
    clients = running.clients(leaving_share=leaving)
    source = running.requests(running.mixed_lengths, seed=MIXED_SEED)
    await _acquaint(running)
    running.watch.phase(", ".join(map(str, options.faults)), real_seconds=options.fault_seconds)
    started, counters = time.monotonic(), RouterCounters(running.cluster)
    async with counters.counting():
        answers, unfinished = await _traffic(running, clients, source)
    await remove_faults(running.cluster)
    await _recover(running, clients, source)
    measurement = Measurement(
        users=options.fault_users,
        seed=MIXED_SEED,
        sent=(),
        answers=tuple(answers),
        observed=observe(answers),
        predicted=None,
        real_seconds=time.monotonic() - started,
        counted=counters.grown,
    )
    return measurement, unfinished


async def _acquaint(running: RunningProfile) -> None:
    """Let prefillers and decoders meet: a decoder that dies while one first greets it hangs that prefiller for good.

    That is LMCache's, in every version, and another fault than those that are asked for.
    """
    running.watch.phase("prefillers and decoders meet")
    count = len(running.cluster.workers)
    lengths = FixedLengths(input_tokens=running.options.input_tokens, output_tokens=_GREETING_TOKENS)
    sent = tuple(islice(running.requests(lengths, seed=_GREETING_SEED), 2 * count))
    await running.clients().closed_loop(sent, count)


async def _traffic(
    running: RunningProfile, clients: Clients, source: Iterator[Request]
) -> tuple[list[Answer], tuple[Trouble, ...]]:
    """Let clients send requests while faults happen, and until requests are answered again."""
    options, done = running.options, asyncio.Event()
    async with asyncio.TaskGroup() as group:
        injected = [group.create_task(_inject(running, fault)) for fault in options.faults]
        sending = group.create_task(clients.until(source, options.fault_users, done))
        await asyncio.sleep(options.fault_seconds)
        # a rolling restart takes as long as it takes, and a real engine minutes to start
        stuck = [each for each in await asyncio.gather(*injected) if each is not None]
        unanswered = await _answered_again(running, clients)
        done.set()
    return sending.result(), (*stuck, *unanswered)


async def _inject(running: RunningProfile, fault: Fault) -> Trouble | None:
    """Make a fault happen; one that does not come to its end is a trouble, and holds nobody up for ever."""
    cluster = running.cluster
    limit = running.options.ready_seconds * len(cluster.alive)
    try:
        async with asyncio.timeout(fault.at_seconds + limit):
            await inject(fault, cluster)
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        why = f"still under way after {limit:g} s" if isinstance(error, TimeoutError) else str(error)
        return _trouble(running, f"`{fault}` did not come to its end: {why}; last `{cluster.events[-1]}`")
    return None


async def _answered_again(running: RunningProfile, clients: Clients) -> tuple[Trouble, ...]:
    """Wait for the pods that a fault has hit, and until the first request after that got its tokens."""
    running.watch.phase("waiting until requests are answered again")
    limit = running.options.ready_seconds
    try:
        await until_all_ready(running.cluster, limit)
        await until_all_routed(running.cluster, limit)
        before = clients.served
        async with asyncio.timeout(limit):
            while clients.served == before:  # noqa: ASYNC110 -- clients tell nobody
                await asyncio.sleep(_POLL_SECONDS)
    except RefusedError as error:
        return error.troubles
    except TimeoutError:
        says = f"no request got its tokens within {limit:g} s after every pod was ready again"
        return (_trouble(running, says),)
    return ()


def _trouble(running: RunningProfile, says: str) -> Trouble:
    return Trouble(kind=Kind.RUNNING, says=says, fix=READ_LOGS, file=running.plan.folder)


async def _recover(running: RunningProfile, clients: Clients, source: Iterator[Request]) -> None:
    """Send single requests until the router tries again what it took for broken, pairs, or hung, prefillers."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_RECOVERY_SECONDS):
            while any(map((await router_samples(running.cluster)).sum, _TRIED_AGAIN)):
                running.watch.phase("waiting for what is broken or hung to be tried again")
                await clients.closed_loop(tuple(islice(source, 2)), 1)
                await asyncio.sleep(_RECOVERY_PAUSE_SECONDS)
