"""What a command of `dpd` is: a module with a description, arguments and something to run."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable

from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.spec.value import record


@record
class Command:
    """One command, as its module offers it under the name `COMMAND`."""

    description: str
    """Help text: what it does, where its output goes, an example."""

    add_arguments: Callable[[ArgumentParser], None]
    """Declare arguments and options."""

    run: Callable[[Namespace], Exit]
    """Do it and say how it went."""

    short: bool = False
    """Whether it is over before garbage matters; then the collector stays off."""


def seconds_between(least: float, longest: float) -> Callable[[str], float]:
    """Return what reads an option as a time in seconds above 0 and from `least` to `longest`."""

    def read(text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if not (seconds > 0 and least <= seconds <= longest):
            raise ArgumentTypeError(f"`{text}` is not a number of seconds between {least:g} and {longest:g}")
        return seconds

    return read
