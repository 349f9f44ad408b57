"""How findings and mistakes reach a terminal, a pipe or a program."""

import os
import sys
from argparse import ArgumentParser
from enum import StrEnum
from typing import Any, TextIO


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


_COLOURS = {"error": "31", "warning": "33", "help": "36", "rule": "1"}


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
