"""The results on a terminal."""

from typing import TextIO

from rich.text import Text

from hyperpod_dpd.planner.report.text import console_for, print_table
from hyperpod_dpd.rehearsal.rehearsal import Rehearsal
from hyperpod_dpd.rehearsal.report.tables import status_lines, tables


def print_rehearsal(rehearsal: Rehearsal, stream: TextIO) -> None:
    """Write the results for people; colours only where `stream` is a terminal that wants them."""
    console = console_for(stream)
    for table in tables(rehearsal):
        print_table(console, table)
    for result in rehearsal.results:
        for line in status_lines(result):
            console.print(Text(line))
