"""How findings and mistakes reach a terminal, a pipe or a program."""

import os
import sys
from argparse import ArgumentParser
from enum import StrEnum
from typing import Any, TextIO

from hyperpod_dpd.cli.exits import Exit, is_full
from hyperpod_dpd.rules.finding import Finding
from hyperpod_dpd.spec.load import UnreadableDeploymentError


class Format(StrEnum):
    """Output format."""

    TEXT = "text"
    JSON = "json"


def add_format(parser: ArgumentParser) -> None:
    """Declare `--format`."""
    parser.add_argument(
        "--format",
        choices=[each.value for each in Format],
        default="text",
        help="output format (default: text)",
    )


_COLOURS = {
    "error": "31",
    "warning": "33",
    "help": "36",
    "rule": "1",
    "ok": "32",
    "wrong": "31",
    "unknown": "33",
    "note": "36",
}


def paint(text: str, colour: str, stream: TextIO) -> str:
    """Return `text` in `colour` when `stream` is a terminal and NO_COLOR is not set."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\033[{_COLOURS[colour]}m{text}\033[0m"


def print_json(data: Any) -> None:
    """Write `data` as JSON to standard output."""
    import json  # noqa: PLC0415 - most runs print text

    json.dump(data, sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_mistakes(error: UnreadableDeploymentError) -> None:
    """Write why a deployment file cannot be read to standard error, one line a mistake."""
    for mistake in error.mistakes:
        print_line(mistake.location, "error", mistake.message)


def print_finding(finding: Finding) -> None:
    """Write a finding to standard error, on one line."""
    message = finding.message.replace(finding.rule, paint(finding.rule, "rule", sys.stderr), 1)
    print_line(finding.location, finding.severity.value, message)


def print_line(location: str, severity: str, message: str) -> None:
    """Write what is wrong at `location` to standard error."""
    says, separator, fix = message.partition(". help: ")
    if separator:
        says = f"{says}. {paint('help:', 'help', sys.stderr)} {fix}"
    print(f"{location}: {paint(severity, severity, sys.stderr)}: {says}", file=sys.stderr)


def print_unwritable(path: object, error: OSError) -> Exit:
    """Write why `path` cannot be written to standard error; return the exit code."""
    reason = error.strerror or str(error)
    fix = "make room, or write somewhere else" if is_full(error) else "name a place that may be written"
    print_line(str(path), "error", f"cannot be written: {reason[:1].lower()}{reason[1:]}. help: {fix}")
    return Exit.UNWRITABLE if is_full(error) else Exit.UNREADABLE


def counted(number: int, noun: str) -> str:
    """Return `number` with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
