"""The verdict, what it rests on, and what to do."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """What can be said."""

    PROVED = "proved"
    """Long prompts were handed over and their KV cache was used; short ones stayed where they belong."""

    FAILED = "failed"
    """Something is not as deployed; the findings say what, and why most likely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong, and its most likely cause.

    Attributes:
        id: short name of the failure.
        says: what was seen, with its numbers.
        cause: what it most likely comes from.
        rules: ids of the rules that prevent it.
        fix: what to do.
        runbook: name of the alert whose runbook goes on from here; empty without one.
    """

    id: str
    says: str
    cause: str
    rules: tuple[str, ...]
    fix: str
    runbook: str = ""

    def __str__(self) -> str:
        named = " ".join((*self.rules, self.id))
        return f"{named} {self.says}. likely cause: {self.cause}. help: {self.fix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofResult:
    """The outcome of one proof.

    Attributes:
        verdict: proved or failed.
        findings: what is wrong, the most telling first.
        sources: what the verdict rests on, and what of it could not be read.
        numbers: what was counted.
        notes: what limits the verdict without contradicting it.
        seconds: how long it took.
    """

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    sources: tuple[str, ...] = ()
    numbers: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def proved(self) -> bool:
        """Whether nothing was found wrong."""
        return self.verdict is Verdict.PROVED

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "verdict": self.verdict.value,
            "findings": [
                {
                    "id": each.id,
                    "says": each.says,
                    "cause": each.cause,
                    "rules": list(each.rules),
                    "fix": each.fix,
                    "runbook": f"docs/runbooks/{each.runbook}.md" if each.runbook else None,
                }
                for each in self.findings
            ],
            "sources": list(self.sources),
            "numbers": self.numbers,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 1),
        }

    def lines(self) -> Iterator[str]:
        """Yield the result for people."""
        for finding in self.findings:
            yield f"error: {finding}"
        for note in self.notes:
            yield f"note: {note}"
        yield f"evidence: {'; '.join(self.sources) or 'none'}"
        for name, number in self.numbers.items():
            yield f"  {name}: {number}"
        yield f"{self.verdict.value} in {self.seconds:.1f} s"
