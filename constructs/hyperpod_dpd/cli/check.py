"""`dpd check`: read a deployment, run every rule, say everything at once."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import Format, paint, print_json
from hyperpod_dpd.rules.check import Report, check
from hyperpod_dpd.rules.finding import Finding
from hyperpod_dpd.spec.load import DeploymentFile, UnreadableDeploymentError, load


def check_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Deployment files.")],
    output: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.TEXT,
) -> None:
    """Check deployment files against every rule.

    Findings go to standard error, a summary to standard output. With `--format json` everything goes to
    standard output. Exit codes: 0 clean or warnings only, 1 errors found, 2 a file cannot be read.

    Example: dpd check deployments/llama-3.3-70b-p5.yaml
    """
    results = [_result(path) for path in files]
    if output is Format.JSON:
        print_json([result.as_dict() for result in results])
    else:
        for result in results:
            result.print_text()
    raise typer.Exit(max(result.exit_code for result in results))


def locate(finding: Finding, file: DeploymentFile) -> Finding:
    """Return `finding` with the file and the line that its path was read from."""
    name, line = file.place(finding.problem.path)
    return Finding(
        rule=finding.rule, severity=finding.severity, problem=finding.problem, file=name, line=line
    )


class _Checked:
    def __init__(self, file: DeploymentFile, report: Report) -> None:
        self._file = file
        self._findings = [locate(finding, file) for finding in report.findings]
        self._acknowledged = len(report.acknowledged)
        self._errors = len(report.errors)
        self.exit_code = Exit.FINDINGS if report.errors else Exit.OK

    def as_dict(self) -> dict[str, object]:
        return {
            "file": str(self._file.path),
            "readable": True,
            "findings": [finding.as_dict() for finding in self._findings],
            "acknowledged": self._acknowledged,
        }

    def print_text(self) -> None:
        for finding in self._findings:
            severity = paint(finding.severity.value, finding.severity.value, sys.stderr)
            message, _, fix = finding.message.partition(" help: ")
            rule, _, rest = message.partition(" ")
            help_word = paint("help:", "help", sys.stderr)
            print(
                f"{finding.location}: {severity}: {paint(rule, 'rule', sys.stderr)} {rest} {help_word} {fix}",
                file=sys.stderr,
            )
        warnings = len(self._findings) - self._errors
        print(
            f"{self._file.path}: {self._errors} errors, {warnings} warnings, {self._acknowledged} acknowledged",
        )


class _Unreadable:
    exit_code = Exit.UNREADABLE

    def __init__(self, path: Path, error: UnreadableDeploymentError) -> None:
        self._path = path
        self._error = error

    def as_dict(self) -> dict[str, object]:
        return {
            "file": str(self._path),
            "readable": False,
            "mistakes": [
                {"file": mistake.file, "line": mistake.line, "path": mistake.path, "message": mistake.message}
                for mistake in self._error.mistakes
            ],
        }

    def print_text(self) -> None:
        for mistake in self._error.mistakes:
            print(
                str(mistake).replace(": error:", f": {paint('error', 'error', sys.stderr)}:", 1),
                file=sys.stderr,
            )


def _result(path: Path) -> _Checked | _Unreadable:
    try:
        file = load(path)
    except UnreadableDeploymentError as error:
        return _Unreadable(path, error)
    return _Checked(file, check(file.deployment))
