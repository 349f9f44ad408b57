"""Run the manifest rules over manifests."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import cast

from hyperpod_dpd.lint.model import Fault, ManifestSet, Note
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.read import read
from hyperpod_dpd.lint.recognise import recognise
from hyperpod_dpd.rules.finding import Finding, Severity
from hyperpod_dpd.rules.registry import ManifestCheck, Rule, Subject, rules_about
from hyperpod_dpd.spec.value import record


@record
class LintReport:
    """Everything that the rules found in one set of manifests."""

    findings: tuple[Finding, ...]
    """In the order of files and lines; accepted warnings are left out."""

    accepted: tuple[Finding, ...]
    notes: tuple[Note, ...]
    """What was assumed, and what could not be compared for want of it."""

    manifests: ManifestSet

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What cannot work, or would silently do something else."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What deserves a look, the unknown included."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)


def lint_manifests(paths: Sequence[Path], *, accept: Collection[str] = ()) -> LintReport:
    """Lint the files at `paths`, and those below the folders among them, as one set of manifests.

    Args:
        paths: files and folders; `-` is standard input.
        accept: ids of rules whose warnings are let through; an error is not.

    Example:
        $ python -c "from pathlib import Path; from hyperpod_dpd.lint import lint_manifests; print(lint_manifests([Path('.')]).errors)"

    Raises:
        UnreadableManifestError: with every file that is not YAML text.
    """
    return lint_documents(read(paths), accept=accept)


def lint_documents(documents: tuple[Node, ...], *, accept: Collection[str] = ()) -> LintReport:
    """Lint documents that were read already."""
    manifests = recognise(documents)
    found = sorted(
        (
            _finding(rule, problem)
            for rule in rules_about(Subject.MANIFEST)
            for problem in cast(ManifestCheck, rule.check)(manifests)
        ),
        key=lambda finding: (finding.file or "", finding.line or 0, finding.rule),
    )
    unique = list(dict.fromkeys(found))
    accepted = [each for each in unique if each.rule in accept and each.severity is Severity.WARNING]
    return LintReport(
        findings=tuple(each for each in unique if each not in accepted),
        accepted=tuple(accepted),
        notes=manifests.notes,
        manifests=manifests,
    )


def _finding(rule: Rule, found: Fault) -> Finding:
    return Finding(
        rule=rule.id, severity=rule.severity, problem=found.problem, file=found.file, line=found.line
    )
