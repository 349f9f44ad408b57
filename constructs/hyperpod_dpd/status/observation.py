"""What was seen, and what could not be seen."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any

from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record
from hyperpod_dpd.status.outside import Outside


class State(StrEnum):
    """How one thing is doing."""

    WELL = "well"
    """As the deployment file wants it."""

    BUSY = "busy"
    """On its way there."""

    ILL = "ill"
    """Somebody has to look."""

    NOTE = "note"
    """It happened. Whether it is over, other things show."""


@record
class Row:
    """One thing that was seen."""

    kind: str
    """Such as `stack` or `node`."""

    name: str
    state: State

    word: str
    """State in the words of whoever was asked."""

    detail: str = ""
    """Last event, reason or version."""


@record
class Unseen:
    """Something that could not be looked at."""

    what: str
    why: str

    needs: str | None = None
    """IAM action that is missing, when that is the reason."""

    skipped: bool = False
    """Whether there is nothing to look at or no tool to look with, rather than a failure."""


Answer = Row | Unseen
Source = Callable[[Deployment, Outside], Iterable[Answer]]


@record
class Section:
    """What one source said."""

    title: str
    answers: tuple[Answer, ...]


@record
class Snapshot:
    """Everything at one moment."""

    at: datetime
    sections: tuple[Section, ...]

    @property
    def rows(self) -> Iterator[Row]:
        """Everything that was seen."""
        return (answer for section in self.sections for answer in section.answers if isinstance(answer, Row))

    @property
    def unseen(self) -> Iterator[Unseen]:
        """Everything that could not be seen."""
        return (
            answer for section in self.sections for answer in section.answers if isinstance(answer, Unseen)
        )

    def count(self, state: State) -> int:
        """Return how many things are in `state`."""
        return sum(row.state is state for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return the snapshot as plain data for JSON."""
        return {
            "at": self.at.isoformat(timespec="seconds"),
            "sections": [
                {
                    "title": section.title,
                    "seen": [
                        {
                            "kind": row.kind,
                            "name": row.name,
                            "state": row.state.value,
                            "word": row.word,
                            "detail": row.detail,
                        }
                        for row in section.answers
                        if isinstance(row, Row)
                    ],
                    "unseen": [
                        {"what": gap.what, "why": gap.why, "needs": gap.needs, "skipped": gap.skipped}
                        for gap in section.answers
                        if isinstance(gap, Unseen)
                    ],
                }
                for section in self.sections
            ],
        }
