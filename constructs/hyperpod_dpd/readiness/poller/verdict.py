"""What a look at one requirement, or at all of a wait, found."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """How far a requirement is."""

    MET = "met"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome and the words that say why."""

    outcome: Outcome
    text: str = ""


MET = Verdict(Outcome.MET)


def waiting(text: str) -> Verdict:
    """Return that what is wanted may still come."""
    return Verdict(Outcome.WAITING, text)


def failed(text: str) -> Verdict:
    """Return that it will not come without somebody's help."""
    return Verdict(Outcome.FAILED, text)


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Return one verdict about all: failed as soon as one failed, met when all are met."""
    found = list(verdicts)
    for outcome in (Outcome.FAILED, Outcome.WAITING):
        texts = [verdict.text for verdict in found if verdict.outcome is outcome]
        if texts:
            return Verdict(outcome, "; ".join(texts))
    return MET
