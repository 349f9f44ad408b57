"""Run the manifest rules over manifests."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, cast

import annotated_types as at

from hyperpod_dpd.lint.model import Fault, ManifestSet, Note
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.read import read
from hyperpod_dpd.lint.recognise import recognise
from hyperpod_dpd.rules.finding import Finding, Severity
from hyperpod_dpd.rules.registry import ManifestCheck, Rule, Subject, rules_about
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import record


@record
class LintReport:
    """Everything that the rules found in one set of manifests."""

    findings: tuple[Finding, ...]
    """In the order of files and lines; accepted warnings are left out."""

    accepted: tuple[Finding, ...]
    notes: tuple[Note, ...]
    """What was assumed, and what could not be compared for want of it."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What cannot work, or would silently do something else."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What deserves a look, the unknown included."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)


@record
class Linted(LintReport):
    """A report together with what the manifests were taken for."""

    manifests: ManifestSet


@checked
def lint_manifests(
    paths: str | Path | Annotated[Sequence[str | Path], at.MinLen(1)], *, accept: Collection[str] = ()
) -> LintReport:
    """Lint the files at `paths`, and those below the folders among them, as one set of manifests.

    Args:
        paths: files and folders, or one of them; `-` is standard input.
        accept: ids of rules whose warnings are let through.

    Example:
        $ python -c "from hyperpod_dpd import lint_manifests; print(lint_manifests('manifests').errors)"

    Raises:
        UnreadableManifestError: with every file that is not YAML text.
        ValueError: `accept` holds what is no rule about manifests, or a rule of severity error; all of them at once.
    """
    if refused := not_acceptable(accept):
        raise ValueError("\n".join(refused))
    given = [paths] if isinstance(paths, str | Path) else paths
    return lint_documents(read([Path(path) for path in given]), accept=accept)


def not_acceptable(rule_ids: Collection[str]) -> tuple[str, ...]:
    """Return why findings of some of `rule_ids` cannot be accepted, one sentence each."""
    known = {rule.id: rule for rule in rules_about(Subject.MANIFEST)}
    return tuple(
        f"an error cannot be accepted: `{rule_id}`. help: mend what `dpd explain {rule_id}` describes"
        if rule_id in known
        else f"unknown rule `{rule_id}`. help: `dpd explain` lists all rules; those about manifests are DPD-LINT-*"
        for rule_id in sorted(rule_ids)
        if rule_id not in known or known[rule_id].severity is Severity.ERROR
    )


def lint_documents(documents: tuple[Node, ...], *, accept: Collection[str] = ()) -> Linted:
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
    return Linted(
        findings=tuple(each for each in unique if each not in accepted),
        accepted=tuple(accepted),
        notes=manifests.notes,
        manifests=manifests,
    )


def _finding(rule: Rule, found: Fault) -> Finding:
    return Finding(
        rule=rule.id, severity=rule.severity, problem=found.problem, file=found.file, line=found.line
    )
