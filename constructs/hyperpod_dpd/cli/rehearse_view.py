"""How a running rehearsal looks: live on a terminal, a line per phase in a pipe."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from hyperpod_dpd.rehearsal.view import RoleView, Show, View

if TYPE_CHECKING:
    from rich.console import Group


@contextmanager
def showing(stream: TextIO) -> Iterator[Show]:
    """Return what shows a view on `stream`, until the block ends."""
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        with _live(stream) as show:
            yield show
    else:
        yield _Lines(stream).show


class _Lines:
    """A line when a phase begins."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = ("", "")

    def show(self, view: View) -> None:
        phase = (view.profile, view.phase)
        if phase == self._shown:
            return
        self._shown = phase
        about = f", about {view.left_seconds:.0f} s" if view.left_seconds is not None else ""
        requests = f" ({view.total} requests{about})" if view.total else ""
        print(f"{view.profile}: {view.phase}{requests}", file=self._stream, flush=True)


@contextmanager
def _live(stream: TextIO) -> Iterator[Show]:
    # a library of a tenth of a second, for whoever watches
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    console = Console(file=stream, highlight=False)
    # drawn when there is something new: a thread that redraws would take time from the clients
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda view: live.update(_picture(view), refresh=True)


def _picture(view: View) -> "Group":
    from rich import box  # noqa: PLC0415
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("role", "ready", "queue", "batch", "TTFT ms", "TPOT ms"):
        table.add_column(header, justify="left" if header == "role" else "right")
    for role in view.roles:
        table.add_row(*_cells(role))
    decided = ", ".join(f"{count:.0f} {name}" for name, count in sorted(view.decisions.items()) if count)
    return Group(
        Text(_progress(view), style="bold"),
        table,
        Text(f"router: {decided or 'nothing decided yet'}"),
        *(Text(event, style="dim") for event in view.events),
    )


def _cells(role: RoleView) -> tuple[str, ...]:
    return (
        role.role.value,
        f"{role.ready}/{role.pods}",
        f"{role.queue:.0f}",
        f"{role.batch:.0f}",
        "–" if role.ttft_seconds is None else f"{role.ttft_seconds * 1e3:,.0f}",
        "–" if role.tpot_seconds is None else f"{role.tpot_seconds * 1e3:.1f}",
    )


def _progress(view: View) -> str:
    done = f", {view.done} of {view.total} requests" if view.total else ""
    left = f", about {view.left_seconds:.0f} s left" if view.left_seconds is not None else ""
    return f"{view.profile}: {view.phase}{done}{left}"
