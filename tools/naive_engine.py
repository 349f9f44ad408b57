"""The scheduler of one colocated engine, one step and one sequence at a time: slow, obvious, and what the planner's
engine must agree with. Tests compare the two, `tools/bench_plan.py` measures the ratio."""

import heapq
from collections import deque
from dataclasses import dataclass

from hyperpod_dpd.planner.engine import EngineLimits
from hyperpod_dpd.planner.step import StepTimes


@dataclass
class Request:
    number: int
    prompt: int
    output: int
    issued: float = 0.0
    arrived: float = 0.0
    computed: int = 0
    emitted: int = 0
    first: float = 0.0
    finished: float = 0.0


def run_closed_loop(
    times: StepTimes,
    limits: EngineLimits,
    lengths: list[tuple[int, int]],
    concurrency: int,
    request_seconds: float,
) -> list[Request]:
    """Serve `lengths` (prompt, answer) for `concurrency` users and return every request with its times."""
    requests = [Request(number, prompt, output) for number, (prompt, output) in enumerate(lengths)]
    unissued = deque(requests)
    arrivals: list[tuple[float, int]] = []
    waiting: deque[Request] = deque()
    running: list[Request] = []
    frontend_free = 0.0

    def issue(now: float) -> None:
        nonlocal frontend_free
        if unissued:
            request = unissued.popleft()
            request.issued = now
            frontend_free = max(now, frontend_free) + request_seconds
            heapq.heappush(arrivals, (frontend_free, request.number))

    def receive(until: float) -> None:
        while arrivals and arrivals[0][0] <= until:
            at, number = heapq.heappop(arrivals)
            requests[number].arrived = at
            waiting.append(requests[number])

    for _ in range(concurrency):
        issue(0.0)
    now, previous = 0.0, None
    while arrivals or waiting or running:
        visible = now if previous is None or not limits.schedules_ahead else previous
        receive(now)
        step = _schedule(running, waiting, limits, visible)
        if not step:
            step = _schedule(running, waiting, limits, now)
        if not step:
            now, previous = arrivals[0][0], None
            continue
        previous = now
        now += _seconds(times, step)
        for request in _account(step, now):
            running.remove(request)
            issue(now)
    return requests


def _account(step: list[tuple[Request, int]], now: float) -> list[Request]:
    finished = []
    for request, chunk in step:
        request.computed += chunk
        if request.computed < request.prompt:
            continue
        request.emitted += 1
        if request.emitted == 1:
            request.first = now
        if request.emitted == request.output:
            request.finished = now
            finished.append(request)
    return finished


def _schedule(
    running: list[Request], waiting: deque[Request], limits: EngineLimits, visible: float
) -> list[tuple[Request, int]]:
    budget = limits.max_num_batched_tokens
    step = []
    for request in running:
        chunk = 1 if request.computed >= request.prompt else min(budget, request.prompt - request.computed)
        if chunk > 0:
            step.append((request, chunk))
            budget -= chunk
    while waiting and budget > 0 and len(running) < limits.max_num_seqs and waiting[0].arrived <= visible:
        request = waiting.popleft()
        chunk = min(budget, request.prompt)
        running.append(request)
        step.append((request, chunk))
        budget -= chunk
    return step


def _seconds(times: StepTimes, step: list[tuple[Request, int]]) -> float:
    decoding = [request for request, _ in step if request.computed >= request.prompt]
    context = sum(request.prompt + request.emitted for request in decoding) * times.seconds_per_cached_token
    chunks = [(request, chunk) for request, chunk in step if request.computed < request.prompt]
    if not chunks:
        return times.decode_seconds(len(decoding)) + context
    ends = sum(request.computed + chunk == request.prompt for request, chunk in chunks)
    pairs = sum(chunk * request.computed + chunk * (chunk + 1) / 2 for request, chunk in chunks)
    tokens = sum(chunk for _, chunk in chunks)
    return times.mixed_seconds(tokens, pairs, len(decoding), len(decoding) + ends) + context
