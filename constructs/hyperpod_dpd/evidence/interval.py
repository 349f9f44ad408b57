"""How sure a change is, from a handful of runs.

Requests of one run wait in one queue, so that they say little on their own: thousands of them look like certainty about a
single draw. What is drawn anew is the run. So each run gives one figure, and the interval comes from the spread of the
figures over seeds: Student's t, on logarithms, because a ratio of 0.5 is as far from 1 as one of 2. Where both systems have
served the same prompts the ratio of each seed is one figure (a paired comparison, which takes out what the prompts do);
otherwise Welch's interval, with the smaller number of degrees of freedom.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Final

CONFIDENCE: Final = 0.95

_T: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
    2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t, 97.5th percentile, for 1 to 30 degrees of freedom (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A ratio minus one, with its interval of 95 %."""

    value: float
    low: float | None
    """None: a single run says nothing about the spread."""
    high: float | None

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out "no change"."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def paired(new: Sequence[float], old: Sequence[float]) -> Change:
    """Return the change from `old` to `new`, whose figures belong together one by one."""
    logs = [math.log(after / before) for after, before in zip(new, old, strict=True)]
    return _change(fmean(logs), _error(logs), len(logs) - 1)


def unpaired(new: Sequence[float], old: Sequence[float]) -> Change:
    """Return the change from `old` to `new`, which have nothing to do with each other."""
    after, before = [math.log(each) for each in new], [math.log(each) for each in old]
    error = math.hypot(_error(after), _error(before))
    return _change(fmean(after) - fmean(before), error, min(len(after), len(before)) - 1)


def _error(logs: Sequence[float]) -> float:
    return math.sqrt(variance(logs) / len(logs)) if len(logs) > 1 else math.nan


def _change(center: float, error: float, freedom: int) -> Change:
    value = math.expm1(center)
    if freedom < 1:
        return Change(value=value, low=None, high=None)
    reach = _T[min(freedom, len(_T)) - 1] * error
    return Change(value=value, low=math.expm1(center - reach), high=math.expm1(center + reach))
