"""The plan on a terminal."""

from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from hyperpod_dpd.planner.plan import Plan
from hyperpod_dpd.planner.report import tables
from hyperpod_dpd.planner.report.tables import Table

_LEAST_FIRST_COLUMN = 12

_LEAST_COLUMNS = 92
"""A narrower terminal breaks the lines of a table itself, which is ugly; leaving numbers out would be worse."""

_PIPED_COLUMNS = 120
"""Width of what is piped into a file."""


def print_plan(plan: Plan, stream: TextIO) -> None:
    """Write `plan` for people; colours only where `stream` is a terminal that wants them."""
    console = console_for(stream)
    console.print(Text(tables.heading(plan), style="bold"))
    if plan.verdict is not None:
        console.print(Text(f"verdict: {plan.verdict.text}", style="bold"))
    console.print()
    print_table(console, tables.fit_table(plan))
    if not plan.fits:
        console.print(Text(tables.fit_text(plan), style="red"))
    _print_lines(console, "Transfer", tables.transfer_lines(plan))
    if plan.traffic is not None:
        print_table(console, tables.traffic_table(plan))
        print_table(console, tables.capacity_table(plan))
        _print_lines(console, "Shape", tables.recommendation_lines(plan))
        _print_lines(console, "Routing", tables.threshold_lines(plan))
    _print_lines(console, "Cost", tables.cost_lines(plan))
    for warning in plan.warnings:
        console.print(Text.assemble(("warning: ", "yellow"), warning))


def console_for(stream: TextIO) -> Console:
    """Return a console on `stream` that is wide enough for tables."""
    console = Console(file=stream, highlight=False)
    least = _LEAST_COLUMNS if console.is_terminal else _PIPED_COLUMNS
    return console if console.width >= least else Console(file=stream, highlight=False, width=least)


def print_table(console: Console, table: Table) -> None:
    """Write a table with its title and note."""
    shown = RichTable(
        title=table.title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    for position, header in enumerate(table.headers):
        # words of a header stand below each other, so that the numbers decide the width
        shown.add_column(
            header.replace(" ", "\n"),
            justify="left" if position == 0 else "right",
            overflow="fold",
            no_wrap=position > 0,
            min_width=None if position else _LEAST_FIRST_COLUMN,
        )
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown, crop=False)
    if table.note:
        console.print(Text(table.note, style="dim"))
    console.print()


def _print_lines(console: Console, title: str, lines: tuple[str, ...]) -> None:
    console.print(Text(title, style="bold"))
    for line in lines:
        console.print(Text(f"  {line}"))
    console.print()
