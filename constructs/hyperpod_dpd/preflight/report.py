"""What a preflight found out."""

from collections.abc import Sequence
from enum import StrEnum

from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.rules.finding import Finding
from hyperpod_dpd.spec.value import record


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    """Everything was looked at and is fine."""

    WRONG = "wrong"
    """Something has to be mended."""

    UNKNOWN = "unknown"
    """Nothing wrong was seen, and not everything could be seen."""

    SKIPPED = "skipped"
    """Not asked: nothing can be asked, or the answers would be about another account."""


@record
class Outcome:
    """One check, done."""

    check: Check
    findings: tuple[Finding, ...] = ()
    gaps: tuple[Gap, ...] = ()
    seconds: float = 0.0
    asked: bool = True
    """False when there was no point in asking."""

    @property
    def status(self) -> Status:
        """How it ended."""
        if not self.asked:
            return Status.SKIPPED
        if self.findings:
            return Status.WRONG
        return Status.UNKNOWN if self.gaps else Status.OK


@record
class Report:
    """All checks of one deployment, in the order of ids."""

    outcomes: tuple[Outcome, ...]

    @property
    def findings(self) -> Sequence[Finding]:
        """Everything that has to be mended."""
        return [finding for outcome in self.outcomes for finding in outcome.findings]

    @property
    def gaps(self) -> Sequence[tuple[Check, Gap]]:
        """Everything that could not be looked at, with its check."""
        return [(outcome.check, gap) for outcome in self.outcomes for gap in outcome.gaps]

    @property
    def denied_by_organization(self) -> Sequence[str]:
        """IAM actions that a service control policy refused."""
        return sorted({gap.needs for _, gap in self.gaps if gap.by_organization and gap.needs})

    def count(self, status: Status) -> int:
        """Return how many checks ended with `status`."""
        return sum(outcome.status is status for outcome in self.outcomes)
