"""The command line: which commands there are, and what holds for each of them."""

import contextlib
import gc
import importlib
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Callable, Collection, Sequence
from typing import TextIO

from hyperpod_dpd._version import __version__
from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit, is_full
from hyperpod_dpd.cli.nearest import meant

COMMANDS = {
    "benchmark": ("hyperpod_dpd.cli.benchmark", "write the manifests of a benchmark job"),
    "bind": ("hyperpod_dpd.cli.bind", "put an account's values into rendered manifests"),
    "check": ("hyperpod_dpd.cli.check", "check deployment files against every rule"),
    "compare": (
        "hyperpod_dpd.cli.compare",
        "say what one benchmark result gains over another, with intervals",
    ),
    "completion": (
        "hyperpod_dpd.cli.completion",
        "print a script with which a shell completes commands and options",
    ),
    "diff": (
        "hyperpod_dpd.cli.diff",
        "say what changes between two deployment files, and what gets replaced",
    ),
    "explain": ("hyperpod_dpd.cli.explain", "say what a rule demands and why, or list all rules"),
    "init": ("hyperpod_dpd.cli.init", "ask a few questions, plan, write a commented deployment file"),
    "lint": ("hyperpod_dpd.cli.lint", "check rendered manifests, whoever wrote them"),
    "plan": ("hyperpod_dpd.cli.plan", "plan a deployment: does it fit, is it worth it, what does it cost"),
    "preflight": (
        "hyperpod_dpd.cli.preflight",
        "ask the account, before anything is deployed, what would fail",
    ),
    "proof": (
        "hyperpod_dpd.cli.proof",
        "prove that the KV cache moves in the running deployment, or say why not",
    ),
    "scale": (
        "hyperpod_dpd.cli.scale",
        "give instance groups another number of nodes, now and without a deployment",
    ),
    "rehearse": (
        "hyperpod_dpd.cli.rehearse",
        "run the rendered manifests on this machine: real router, simulated engines, faults",
    ),
    "schema": ("hyperpod_dpd.cli.schema", "print the JSON Schema of a deployment file"),
    "secret": ("hyperpod_dpd.cli.secret", "fill a secret, from standard input or without echo"),
    "status": (
        "hyperpod_dpd.cli.status",
        "say how a deployment is doing: stacks, nodes, pods, endpoint, alerts",
    ),
}
"""Module and summary by name of the command. Only the module of the command that was asked for is imported."""

_DESCRIPTION = "Disaggregated prefill and decode on SageMaker HyperPod."

_EXIT_CODES = """\
exit codes:
  0    nothing to mend
  1    something has to be mended, or a warning has to be acknowledged
  2    the input or the command line cannot be understood
  3    nothing to mend was found, but not everything could be looked at (preflight, rehearse)
  130  interrupted
  74   the output cannot be written: the disk is full
  141  the reader of the output went away
"""


def run(arguments: Sequence[str], *, before: Callable[[], object] = lambda: None) -> int:
    """Run the command line `arguments` and return the exit code.

    Args:
        arguments: what follows the name of the program.
        before: is called once the command's modules are read, right before it begins.
    """
    # Starting makes many objects and hardly any garbage, and the collector would look for it a hundred times.
    gc.disable()
    # Pydantic would search every installed distribution for plugins; none of them has a say in what a deployment is.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape instead of a traceback.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _ended(arguments, before)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    except OSError as error:
        return _refused(error)
    return code


def _open_closed_streams() -> None:
    """Let what the caller has closed (`>&-`) lead nowhere: Python has None there, and a file opened next its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 -- open to the end


def _ended(arguments: Sequence[str], before: Callable[[], object]) -> Exit:
    try:
        return _dispatch(arguments, before)
    except SystemExit as ended:
        # argparse ends the process after a help text and after a mistake, rich where a pipe breaks
        if isinstance(ended.__context__, BrokenPipeError):
            raise BrokenPipeError from None
        sys.stdout.flush()
        raise


def _refused(error: OSError) -> int:
    """Say what the machine refuses, as far as that can still be said, and return the exit code."""
    _drop_output()
    # jsii stops what it could not start, and says at length that it could not
    sys.unraisablehook = lambda _: None
    if is_full(error):
        says = f"the output cannot be written: {error.strerror}. help: make room, or write somewhere else"
    else:
        says = f"this machine refuses a file: {error}. help: see to what it names"
    with contextlib.suppress(OSError):
        print(f"dpd: error: {says}", file=sys.stderr)
    return Exit.UNWRITABLE


def _drop_output() -> None:
    # The interpreter flushes once more when it ends, and would complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(ArgumentParser):
    """Says what was probably meant, and does not keep to itself that a help text could not be written."""

    def print_help(self, file: TextIO | None = None) -> None:  # type: ignore[override]
        (file or sys.stdout).write(self.format_help())

    @property
    def options(self) -> list[str]:
        """Every option, as it is typed."""
        return list(self._option_string_actions)

    def misspelled(self, what: str, given: str, known: Collection[str]) -> None:
        """End with usage and the nearest of the names that are `known`.

        Raises:
            SystemExit: always, with 2.
        """
        hint = meant(given, known, otherwise=f"see `{self.prog} --help`")
        self.error(f"unknown {what} `{given}`. help: {hint}")


def _dispatch(arguments: Sequence[str], before: Callable[[], object]) -> Exit:
    parser = _parser("dpd", _DESCRIPTION)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    wanted = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, (module, summary) in COMMANDS.items():
        if name == wanted:
            _add_command(commands, name, module, summary)
        else:
            commands.add_parser(name, help=summary)
    if not arguments:
        parser.print_help(sys.stderr)
        return Exit.UNREADABLE
    if wanted is not None and wanted not in COMMANDS:
        parser.misspelled("command", wanted, COMMANDS)
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        below = commands.choices[wanted or ""]
        below.misspelled("argument", unknown[0], below.options)
    if not parsed.short:
        gc.enable()
    before()
    return Exit(parsed.run(parsed))


def full_parser() -> ArgumentParser:
    """Return the parser with the arguments of every command, which takes the modules of all of them."""
    parser = _parser("dpd", _DESCRIPTION)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (module, summary) in COMMANDS.items():
        _add_command(commands, name, module, summary)
    return parser


def _add_command(commands: "_SubParsersAction[_Parser]", name: str, module: str, summary: str) -> None:
    command: Command = importlib.import_module(module).COMMAND
    below = commands.add_parser(
        name,
        help=summary,
        description=command.description,
        epilog=_EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    command.add_arguments(below)
    below.set_defaults(run=command.run, short=command.short)


def _parser(name: str, description: str) -> _Parser:
    return _Parser(
        prog=name, description=description, epilog=_EXIT_CODES, formatter_class=RawDescriptionHelpFormatter
    )
