"""Does it pay? Cost per token at capacity, within the promises, against the best colocated fleet."""

from dataclasses import dataclass
from enum import StrEnum

from hyperpod_dpd.planner.capacity import Capacity
from hyperpod_dpd.planner.search import effort

_ABOUT_EQUAL = 0.05
"""Costs closer than this are the same: no constant of the model is known better."""


class Answer(StrEnum):
    """Whether disaggregation pays under the deployment's promises."""

    PAYS = "pays"
    ABOUT_EQUAL = "about equal"
    DOES_NOT_PAY = "does not pay"
    NO_SHAPE = "no shape keeps the promises"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Best disaggregated against best colocated fleet with one set of constants."""

    constants: str
    disaggregated: Capacity | None
    colocated: Capacity | None

    @property
    def cost_ratio(self) -> float | None:
        """Cost per token, disaggregated over colocated; None where one of them cannot keep the promises."""
        if self.disaggregated is None or self.colocated is None:
            return None
        return effort(self.disaggregated.evaluation)[0] / effort(self.colocated.evaluation)[0]

    @property
    def answer(self) -> Answer:
        """What the numbers say."""
        ratio = self.cost_ratio
        if ratio is not None:
            if ratio < 1 - _ABOUT_EQUAL:
                return Answer.PAYS
            return Answer.DOES_NOT_PAY if ratio > 1 + _ABOUT_EQUAL else Answer.ABOUT_EQUAL
        if self.disaggregated is not None:
            return Answer.PAYS
        return Answer.DOES_NOT_PAY if self.colocated is not None else Answer.NO_SHAPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer with its band: one comparison per set of constants."""

    measured: Comparison
    public: Comparison

    @property
    def settled(self) -> bool:
        """Whether both sets of constants give the same answer."""
        return self.measured.answer is self.public.answer

    @property
    def text(self) -> str:
        """One sentence."""
        if self.settled:
            return f"disaggregation {_says(self.measured)}; both sets of constants agree ({self._band()})"
        return (
            f"undecided: with measured constants disaggregation {_says(self.measured)}, with public ones it "
            f"{_says(self.public)} ({self._band()}); measure before you buy"
        )

    def _band(self) -> str:
        ratios = sorted(
            ratio for ratio in (self.measured.cost_ratio, self.public.cost_ratio) if ratio is not None
        )
        if not ratios:
            return "no ratio of costs: only one of the two keeps the promises"
        if len(ratios) == 1:
            return (
                f"cost per token {ratios[0]:.2f} × colocated in the one set in which both keep the promises"
            )
        return f"cost per token {ratios[0]:.2f} to {ratios[-1]:.2f} × colocated"


def _says(comparison: Comparison) -> str:
    if comparison.answer is Answer.PAYS and comparison.colocated is None:
        return "pays: no colocated fleet keeps the promises"
    if comparison.answer is Answer.DOES_NOT_PAY and comparison.disaggregated is None:
        return "does not pay: no disaggregated shape keeps the promises"
    return {
        Answer.PAYS: "pays",
        Answer.DOES_NOT_PAY: "does not pay",
        Answer.ABOUT_EQUAL: "costs about the same",
        Answer.NO_SHAPE: "cannot help: no shape keeps the promises",
    }[comparison.answer]
