"""Burn rates of the error budget of an SLO that is a quantile below a limit.

`ttft_p95_seconds: 3` promises that 95 of 100 requests get their first token within 3 seconds: 5 % is the budget. A burn
rate of 1 uses it up exactly. Windows and factors are those of the Google SRE Workbook, chapter 5, table 5-8: a page for
14.4 over 1 h and 5 m or 6 over 6 h and 30 m, a ticket for 3 over 1 d and 2 h or 1 over 3 d and 6 h.
"""

from itertools import pairwise
from typing import Final

from hyperpod_dpd.observability.rules.promql import Scope
from hyperpod_dpd.observability.rules.rule import Alert, Recording, Severity
from hyperpod_dpd.spec.value import record

WINDOWS: Final = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")

PROMISED_SHARE: Final = 0.95
"""Share of requests within the limit: the specification's SLOs are 95th percentiles."""


class LimitOutsideBucketsError(ValueError):
    """An SLO lies outside of what the histogram can tell apart."""


@record
class Objective:
    """A limit that `PROMISED_SHARE` of requests must keep."""

    name: str
    """Part of rule names: `ttft` or `tpot`."""

    title: str
    """Part of alert names: `Ttft` or `Tpot`."""

    meaning: str
    limit_seconds: float
    metric: str
    matchers: tuple[str, ...]
    buckets: tuple[float, ...]

    def recorded(self, window: str) -> str:
        """Return the name of the recorded share of requests over the limit in `window`."""
        return f"dpd:{self.name}_slo_misses:ratio_rate{window}"


def recordings(scope: Scope, objective: Objective) -> tuple[Recording, ...]:
    """Return the recordings of the share of requests over the limit, one per window.

    Raises:
        LimitOutsideBucketsError: the limit is beyond the last bucket of the histogram.
    """
    return tuple(
        Recording(name=objective.recorded(window), expression=_misses(scope, objective, window))
        for window in WINDOWS
    )


def burn_alerts(scope: Scope, objective: Objective) -> tuple[Alert, Alert]:
    """Return the page and the ticket of `objective`."""
    limit = f"{objective.limit_seconds:g} s"
    budget = f"{1 - PROMISED_SHARE:.0%}"
    share = "{{ $value | humanizePercentage }}"
    return (
        Alert(
            name=f"Dpd{objective.title}BudgetBurningFast",
            expression=_either(scope, objective, (("1h", "5m", 14.4), ("6h", "30m", 6.0))),
            pending="2m",
            severity=Severity.CRITICAL,
            summary=f"{share} of requests miss {limit} {objective.meaning}; the budget is {budget}",
            description=f"The 95th percentile of the time {objective.meaning} was promised as {limit}. At this rate a budget of 30 "
            "days is gone in hours.",
        ),
        Alert(
            name=f"Dpd{objective.title}BudgetBurningSlowly",
            expression=_either(scope, objective, (("1d", "2h", 3.0), ("3d", "6h", 1.0))),
            pending="1h",
            severity=Severity.WARNING,
            summary=f"{share} of requests missed {limit} {objective.meaning} for hours; the budget is {budget}",
            description=f"The 95th percentile of the time {objective.meaning} was promised as {limit}. At this rate the budget of 30 "
            "days does not last.",
        ),
    )


def _misses(scope: Scope, objective: Objective, window: str) -> str:
    """Return the share of requests over the limit; 0/0 is no data, and no data is no miss."""
    good = _within(scope, objective, window)
    total = scope.total_rate(f"{objective.metric}_count", *objective.matchers, window=window)
    return f"1 - ({good}) / ({total} > 0)"


def _within(scope: Scope, objective: Objective, window: str) -> str:
    """Return the rate of requests within the limit, interpolated within a bucket as `histogram_quantile` does it."""
    limit = objective.limit_seconds

    def bucket(bound: float) -> str:
        # the text of a bound depends on who wrote it: Prometheus keeps `5.0`, the collector writes `5`
        text = f"{bound:g}".replace(".", r"\\.")
        tail = r"(\\.0)?" if float(bound).is_integer() else ""
        return scope.total_rate(
            f"{objective.metric}_bucket", *objective.matchers, f'le=~"{text}{tail}"', window=window
        )

    if limit in objective.buckets:
        return bucket(limit)
    for low, high in pairwise(objective.buckets):
        if low < limit < high:
            weight = (limit - low) / (high - low)
            return f"{1 - weight:.4g} * {bucket(low)} + {weight:.4g} * {bucket(high)}"
    first, last = objective.buckets[0], objective.buckets[-1]
    raise LimitOutsideBucketsError(
        f"`{objective.metric}` cannot show the limit: given {limit:g} seconds, limit {first:g} to {last:g} seconds. "
        "help: choose an SLO between them"
    )


def _either(scope: Scope, objective: Objective, pairs: tuple[tuple[str, str, float], ...]) -> str:
    budget = 1 - PROMISED_SHARE
    parts = []
    for long, short, factor in pairs:
        threshold = f"{factor * budget:.4g}"
        series = (scope.series(objective.recorded(window)) for window in (long, short))
        parts.append("(" + " and ".join(f"{each} > {threshold}" for each in series) + ")")
    return " or ".join(parts)
