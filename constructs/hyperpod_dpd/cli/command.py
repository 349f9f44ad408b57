"""What a command of `dpd` is: a module with a description, arguments and something to run."""

from argparse import ArgumentParser, Namespace
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
