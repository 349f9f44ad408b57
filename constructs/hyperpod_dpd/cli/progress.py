"""How a running preflight looks: live on a terminal, a line per check in a pipe."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hyperpod_dpd.cli.output import paint
from hyperpod_dpd.preflight.report import Outcome, Status

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

Listener = Callable[[Outcome], None]

_SHOWN = 4
"""Running checks that are named; the rest is a number."""


@contextmanager
def progress(names: Sequence[str], *, quiet: bool) -> Iterator[Listener]:
    """Show on standard error how far the checks `names` are; `quiet` prints no line where nobody watches."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _live(names) as listener:
            yield listener
    elif quiet:
        yield lambda _outcome: None
    else:
        yield _print


def _print(outcome: Outcome) -> None:
    if outcome.asked:
        print(_line(outcome), file=sys.stderr, flush=True)


def _line(outcome: Outcome) -> str:
    status = outcome.status.value
    word = paint(f"{status:<7}", status, sys.stderr)
    return f"{word} {outcome.check.id} {outcome.check.title} ({outcome.seconds:.1f} s)"


@contextmanager
def _live(names: Sequence[str]) -> Iterator[Listener]:
    # a library of a tenth of a second, for whoever watches
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    console = Console(stderr=True, highlight=False)
    watched = _Watched(names)
    with Live(watched.view(), console=console, refresh_per_second=10, transient=True) as live:

        def listen(outcome: Outcome) -> None:
            _note(outcome, watched, console, live)

        yield listen


def _note(outcome: Outcome, watched: "_Watched", console: "Console", live: "Live") -> None:
    from rich.text import Text  # noqa: PLC0415

    watched.running.discard(outcome.check.id)
    if outcome.status is not Status.SKIPPED:
        console.print(Text.from_ansi(_line(outcome)))
    live.update(watched.view())


class _Watched:
    """Checks that are still running, and how they are shown."""

    def __init__(self, names: Sequence[str]) -> None:
        from rich.spinner import Spinner  # noqa: PLC0415

        self.running = set(names)
        self._total = len(names)
        self._spinner = Spinner("line")

    def view(self) -> "Spinner":
        """Return a spinner with how many checks are over and which are not."""
        self._spinner.update(text=self._text())
        return self._spinner

    def _text(self) -> "Text":
        from rich.text import Text  # noqa: PLC0415

        waiting = sorted(self.running)
        more = f" and {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
        over = self._total - len(waiting)
        return Text(
            f"{over} of {self._total} checks, waiting for {', '.join(waiting[:_SHOWN])}{more}",
            overflow="ellipsis",
            no_wrap=True,
        )
