"""What a run means: percentiles, rates, cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from hyperpod_dpd.planner.simulation import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean and percentiles of one quantity, in seconds."""

    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What clients and owner see of one run."""

    requests: int
    """Requests that the figures are about."""

    dropped: int
    """Requests cut off when the run stopped."""

    ttft_seconds: Spread
    e2e_seconds: Spread

    tpot_seconds: Spread | None
    """None where every answer has one token: there is no time between tokens."""

    requests_per_second: float
    output_tokens_per_second: float
    disaggregated_share: float
    """Share of requests that were handed over."""

    prefill_busy_share: float | None
    """None without prefillers."""

    decode_busy_share: float
    preemptions: int


class NothingFinishedError(ValueError):
    """The run ended before anything could be measured."""


def spread(values: Sequence[float]) -> Spread:
    """Return mean and percentiles (nearest rank) of `values`.

    Raises:
        NothingFinishedError: there is no value.
    """
    if not values:
        raise NothingFinishedError("no request finished, so there is nothing to measure")
    ordered = sorted(values)

    def rank(share: float) -> float:
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]

    return Spread(mean=fmean(ordered), p50=rank(0.5), p95=rank(0.95), p99=rank(0.99))


def summarize(outcome: Outcome, *, skip: int = 0) -> Summary:
    """Return what `outcome` means.

    Args:
        outcome: a run.
        skip: requests that finished first and only filled the system up; rates then start with the last of them.

    Raises:
        NothingFinishedError: nothing is left to measure.
    """
    ordered = sorted(outcome.requests, key=lambda request: request.finished)
    counted = ordered[skip:]
    if not counted:
        raise NothingFinishedError("no request finished, so there is nothing to measure")
    begin = ordered[skip - 1].finished if skip else outcome.requests[0].issued
    seconds = (counted[-1].finished if skip else begin + outcome.seconds) - begin
    tpots = [request.tpot for request in counted if request.output_tokens > 1]
    tokens = sum(request.output_tokens for request in counted)
    return Summary(
        requests=len(counted),
        dropped=outcome.dropped,
        ttft_seconds=spread([request.ttft for request in counted]),
        e2e_seconds=spread([request.e2e for request in counted]),
        tpot_seconds=spread(tpots) if tpots else None,
        requests_per_second=_rate(len(counted), seconds),
        output_tokens_per_second=_rate(tokens, seconds),
        disaggregated_share=fmean(request.disaggregated for request in counted),
        prefill_busy_share=None if math.isnan(outcome.prefill_busy_share) else outcome.prefill_busy_share,
        decode_busy_share=0.0 if math.isnan(outcome.decode_busy_share) else outcome.decode_busy_share,
        preemptions=outcome.preemptions,
    )


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
