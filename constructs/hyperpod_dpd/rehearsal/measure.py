"""One run of clients through the router, and what came out of it."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Final

from hyperpod_dpd.evidence import results
from hyperpod_dpd.planner.summary import Summary
from hyperpod_dpd.rehearsal.metrics import Samples
from hyperpod_dpd.rehearsal.prompts import Request
from hyperpod_dpd.rehearsal.traffic import Answer, Ending
from hyperpod_dpd.spec.value import record

AGREEMENT: Final = 0.10
"""Measured and predicted TPOT may differ by this share: engine step times are the same on both sides."""

_COUNTED: Final = (
    "dpd_router_decisions_total",
    "dpd_router_handoff_failures_total",
    "dpd_router_handoff_hits_total",
    "dpd_router_notif_timeouts_total",
    "dpd_router_retries_total",
)


@record
class Observed:
    """What clients saw of the requests that were answered, in simulated seconds."""

    requests: int
    seconds: float
    """From the first request to the last token."""

    ttft_mean_seconds: float
    ttft_p50_seconds: float
    tpot_mean_seconds: float
    tpot_p95_seconds: float
    e2e_p50_seconds: float
    output_tokens_per_second: float


@record
class Measurement:
    """One run."""

    users: int
    seed: int
    sent: tuple[Request, ...]
    answers: tuple[Answer, ...]
    observed: Observed | None
    """None where nothing was answered."""

    predicted: Summary | None
    """What the planner says of the same shape under the same requests; None where it has no words for the shape."""

    counted: Samples
    """What the router's counters grew by."""

    real_seconds: float

    @property
    def endings(self) -> Mapping[str, int]:
        """Requests by how they ended."""
        found = Counter(answer.ending for answer in self.answers)
        return {ending.value: found[ending] for ending in Ending}

    @property
    def decisions(self) -> Mapping[str, float]:
        """Requests by what the router decided."""
        counted = self.counted.by("dpd_router_decisions_total", "decision")
        return {name: count for name, count in counted.items() if count}

    @property
    def tpot_difference(self) -> float | None:
        """Measured against predicted mean TPOT, as a share of the predicted one."""
        if self.observed is None or self.predicted is None or self.predicted.tpot_seconds is None:
            return None
        return self.observed.tpot_mean_seconds / self.predicted.tpot_seconds.mean - 1

    @property
    def agrees(self) -> bool | None:
        """Whether measured and predicted TPOT are within `AGREEMENT`; None where nothing is predicted."""
        difference = self.tpot_difference
        return None if difference is None else abs(difference) <= AGREEMENT

    def as_run(self) -> results.Run:
        """Return the run in the format of benchmark results."""
        begin = min(answer.issued for answer in self.answers)
        return results.Run(
            concurrency=self.users,
            seed=self.seed,
            prompts_digest=hashlib.sha256(b"".join(request.body for request in self.sent)).hexdigest(),
            requests=tuple(_as_request(answer, begin) for answer in self.answers),
            router={
                _series(name, labels): value
                for (name, labels), value in self.counted.values.items()
                if name in _COUNTED
            },
        )


def _series(name: str, labels: Iterable[tuple[str, str]]) -> str:
    listed = ",".join(f'{key}="{value}"' for key, value in sorted(labels))
    return f"{name}{{{listed}}}"


def _as_request(answer: Answer, begin: float) -> results.Request:
    answered = answer.ending is Ending.ANSWERED
    return results.Request(
        path=answer.path,
        start_seconds=answer.issued - begin,
        ttft_seconds=None if math.isnan(answer.first_token) else answer.ttft,
        e2e_seconds=answer.e2e if answered else None,
        prompt_tokens=answer.input_tokens if answered else None,
        output_tokens=answer.output_tokens if answered else None,
        cached_tokens=None,
        error=None if answered else f"{answer.ending.value}: {answer.says}",
    )


def observe(answers: Sequence[Answer]) -> Observed | None:
    """Return what `answers` amount to; None where none is complete."""
    answered = [answer for answer in answers if answer.ending is Ending.ANSWERED]
    if not answered:
        return None
    tpots = sorted(answer.tpot for answer in answered if not math.isnan(answer.tpot)) or [math.nan]
    seconds = max(each.finished for each in answered) - min(each.issued for each in answered)
    return Observed(
        requests=len(answered),
        seconds=seconds,
        ttft_mean_seconds=fmean(each.ttft for each in answered),
        ttft_p50_seconds=median(each.ttft for each in answered),
        tpot_mean_seconds=fmean(tpots),
        tpot_p95_seconds=tpots[math.ceil(0.95 * len(tpots)) - 1],
        e2e_p50_seconds=median(each.e2e for each in answered),
        output_tokens_per_second=sum(each.output_tokens for each in answered) / seconds,
    )
