"""Traffic that nothing disturbs: the announcement's benchmark, and long and short prompts together."""

import time
from itertools import islice
from typing import Final

from hyperpod_dpd.planner.summary import Summary
from hyperpod_dpd.planner.workload import ClosedLoop, FixedLengths
from hyperpod_dpd.rehearsal.measure import Measurement, observe
from hyperpod_dpd.rehearsal.prediction import predict, shape_of
from hyperpod_dpd.rehearsal.run.counters import router_samples
from hyperpod_dpd.rehearsal.run.running import MIXED_SEED, RunningProfile

_LEAST_REQUESTS: Final = 50
"""Requests of a run of the announcement's benchmark."""

_MIXED_USERS: Final = 8
_MIXED_REQUESTS: Final = 24


async def run_announced(running: RunningProfile, users: int) -> Measurement:
    """Run the announcement's scenario with one number of users."""
    options = running.options
    lengths = FixedLengths(input_tokens=options.input_tokens, output_tokens=options.output_tokens)
    count = max(_LEAST_REQUESTS, options.requests_per_user * users)
    loop = ClosedLoop(concurrency=users, lengths=lengths, requests=count)
    predicted = _predicted(running, loop)
    seconds = None if predicted is None else count / predicted.requests_per_second / options.compression
    running.watch.phase(f"{users} users", total=count, real_seconds=seconds)
    return await _measured(running, loop, seed=users, predicted=predicted)


async def run_long_and_short(running: RunningProfile) -> Measurement:
    """Run long and short prompts together: what the threshold is for."""
    loop = ClosedLoop(concurrency=_MIXED_USERS, lengths=running.mixed_lengths, requests=_MIXED_REQUESTS)
    running.watch.phase("long and short prompts", total=_MIXED_REQUESTS)
    return await _measured(running, loop, seed=MIXED_SEED, predicted=None)


def _predicted(running: RunningProfile, loop: ClosedLoop) -> Summary | None:
    # one rank alone, as on a GPU here, has no all-reduces: it is not what the planner plans
    shape = None if running.options.gpus else shape_of(running.plan)
    if shape is None:
        return None
    return predict(running.deployment, shape, loop, compression=running.options.compression)


async def _measured(
    running: RunningProfile, loop: ClosedLoop, *, seed: int, predicted: Summary | None
) -> Measurement:
    # made before the clock starts: a prompt costs a millisecond
    sent = tuple(islice(running.requests(loop.lengths, seed=seed), loop.requests))
    before, started = await router_samples(running.cluster), time.monotonic()
    answers = await running.clients().closed_loop(sent, loop.concurrency, progress=running.watch.step)
    return Measurement(
        users=loop.concurrency,
        seed=seed,
        sent=sent,
        answers=tuple(answers),
        observed=observe(answers),
        predicted=predicted,
        real_seconds=time.monotonic() - started,
        counted=(await router_samples(running.cluster)).since(before),
    )
