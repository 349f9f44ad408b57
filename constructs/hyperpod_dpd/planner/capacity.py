"""How much a shape serves while it keeps the promises, and what a token then costs."""

import math
from dataclasses import dataclass, replace

from hyperpod_dpd.catalog.calibration import MEASURED, StepCalibration
from hyperpod_dpd.planner.shape import Shape
from hyperpod_dpd.planner.workbench import Evaluation, Workbench

_MOST_USERS = 4096
_CLOSE_ENOUGH = 1.06
"""Stop when the bounds are this close: the model is no better than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The most users that a shape serves within the promises."""

    users: int
    evaluation: Evaluation

    @property
    def shape(self) -> Shape:
        """Shape that was loaded."""
        return self.evaluation.shape


def capacity(
    bench: Workbench, shape: Shape, calibration: StepCalibration = MEASURED, *, guess: int = 16
) -> Capacity | None:
    """Return the capacity of `shape` within the deployment's promises, or None when one user is too many.

    Colocated workers share nothing, so one of them is loaded and the result multiplied, then measured once together.

    Raises:
        PromptTooLongError: a request fits into no worker.
    """
    if shape.disaggregated or shape.decoders == 1:
        return _capacity(bench, shape, calibration, guess)
    one = _capacity(bench, replace(shape, decoders=1), calibration, max(1, guess // shape.decoders))
    if one is None:
        return None
    users = one.users * shape.decoders
    return Capacity(users=users, evaluation=bench.evaluate(shape, bench.users(users), calibration))


def _capacity(bench: Workbench, shape: Shape, calibration: StepCalibration, guess: int) -> Capacity | None:
    good, bad = 0, _MOST_USERS + 1
    users = max(1, min(guess, _MOST_USERS))
    while bad > max(good + 1, good * _CLOSE_ENOUGH):
        # one turn of every user is enough to find the place; the figures come from two
        if bench.evaluate(shape, bench.users(users, turns=1), calibration).meets_slo:
            good = users
        else:
            bad = users
        users = _next(good, bad)
    while good:
        evaluation = bench.evaluate(shape, bench.users(good), calibration)
        if evaluation.meets_slo:
            return Capacity(users=good, evaluation=evaluation)
        good = int(good / _CLOSE_ENOUGH)
    return None


def _next(good: int, bad: int) -> int:
    if bad > _MOST_USERS:
        return min(_MOST_USERS, 2 * good)
    if not good:
        return max(1, bad // 2)
    return min(bad - 1, max(good + 1, round(math.sqrt(good * bad))))
