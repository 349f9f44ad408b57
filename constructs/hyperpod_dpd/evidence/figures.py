"""What a run says: latencies and throughput of its steady part."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from hyperpod_dpd.evidence.results import Request, Run


class NothingMeasuredError(ValueError):
    """A run has no steady part, or hardly a request in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one run, over the requests that ended in its steady part."""

    requests: int
    ttft_p50_seconds: float
    tpot_mean_seconds: float
    """Mean over requests of the time per output token after the first."""
    e2e_p50_seconds: float
    output_tokens_per_second: float


def figures(run: Run) -> Figures:
    """Return the figures of `run`.

    The steady part begins with the end of as many requests as there are users, because until then they all started
    together, and ends when the last request started, because from then on fewer and fewer are in flight. A tool that cuts
    off what is in flight at the end and one that waits for it are then measured alike.

    Raises:
        NothingMeasuredError: fewer than two requests ended in between.
    """
    ended = sorted((each for each in run.requests if each.ended), key=lambda each: each.end_seconds)
    begin = ended[run.concurrency - 1].end_seconds if len(ended) >= run.concurrency else math.inf
    end = max(each.start_seconds for each in run.requests)
    measured = [each for each in ended if begin < each.end_seconds <= end]
    if len(measured) < 2:
        raise NothingMeasuredError(
            f"concurrency {run.concurrency}, seed {run.seed}: {len(ended)} answers to {len(run.requests)} requests leave "
            "no steady part. help: send at least ten requests per user; each `error` in the file says why one failed"
        )
    return Figures(
        requests=len(measured),
        ttft_p50_seconds=median(_ttft(each) for each in measured),
        tpot_mean_seconds=fmean(_tpots(measured)),
        e2e_p50_seconds=median(_e2e(each) for each in measured),
        output_tokens_per_second=sum(each.output_tokens or 0 for each in measured) / (end - begin),
    )


def _tpots(requests: Sequence[Request]) -> list[float]:
    found = [
        (_e2e(each) - _ttft(each)) / (each.output_tokens - 1)
        for each in requests
        if each.output_tokens is not None and each.output_tokens > 1
    ]
    if not found:
        raise NothingMeasuredError("no answer has a second token, so that there is no time between two")
    return found


def _ttft(request: Request) -> float:
    assert request.ttft_seconds is not None  # it has ended
    return request.ttft_seconds


def _e2e(request: Request) -> float:
    assert request.e2e_seconds is not None  # it has ended
    return request.e2e_seconds
