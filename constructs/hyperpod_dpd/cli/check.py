"""`dpd check`: read a deployment, run every rule, say everything at once."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import Format, add_format, counted, print_finding, print_json, print_mistakes
from hyperpod_dpd.rules.check import Report, check
from hyperpod_dpd.spec.load import DeploymentFile, UnreadableDeploymentError, load


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="deployment file, or `-` for standard input"
    )
    add_format(parser)


def _run(arguments: Namespace) -> Exit:
    results = [_result(path) for path in arguments.files]
    if arguments.format == Format.JSON:
        print_json([result.as_dict() for result in results])
    else:
        for result in results:
            result.print_text()
    return max(result.exit_code for result in results)


COMMAND = Command(
    description="""\
Check deployment files against every rule and report everything at once.

Findings go to standard error, a summary of each file to standard output; with `--format json` everything goes
to standard output. A warning counts until the file acknowledges it by rule id with a reason.

example: dpd check deployments/llama-3.3-70b-p5.yaml""",
    add_arguments=_add_arguments,
    run=_run,
    short=True,
)


class _Checked:
    def __init__(self, file: DeploymentFile, report: Report) -> None:
        self._path = file.path
        self._report = report
        self._findings = sorted(
            (finding.located_in(file) for finding in report.findings),
            key=lambda finding: (finding.file or "", finding.line or 0, finding.rule),
        )
        self._acknowledged = [finding.located_in(file) for finding in report.acknowledged]
        self.exit_code = Exit.OK if report.clean else Exit.FINDINGS

    def as_dict(self) -> dict[str, object]:
        return {
            "file": str(self._path),
            "readable": True,
            "findings": [finding.as_dict() for finding in self._findings],
            "acknowledged": [finding.as_dict() for finding in self._acknowledged],
        }

    def print_text(self) -> None:
        for finding in self._findings:
            print_finding(finding)
        counts = (
            counted(len(self._report.errors), "error"),
            counted(len(self._report.warnings), "warning"),
            f"{len(self._acknowledged)} acknowledged",
        )
        print(f"{self._path}: {', '.join(counts)}", flush=True)


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
                {"file": mistake.file, "line": mistake.line, "path": mistake.path, "message": mistake.says}
                for mistake in self._error.mistakes
            ],
        }

    def print_text(self) -> None:
        print_mistakes(self._error)


def _result(path: Path) -> _Checked | _Unreadable:
    try:
        file = load(path)
    except UnreadableDeploymentError as error:
        return _Unreadable(path, error)
    return _Checked(file, check(file.deployment))
