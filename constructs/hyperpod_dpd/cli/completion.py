"""`dpd completion`: a script with which a shell completes commands and options."""

from argparse import Action, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit

_SHELLS = ("bash", "zsh", "tcsh")


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=f"one of {', '.join(_SHELLS)}")


def _run(arguments: Namespace) -> Exit:
    import shtab  # noqa: PLC0415 - no other command needs it

    from hyperpod_dpd.cli.app import full_parser  # noqa: PLC0415 - it names this module

    parser = full_parser()
    for action in _actions(parser):
        if action.type is Path:
            # an attribute that shtab reads
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=arguments.shell))
    return Exit.OK


COMMAND = Command(
    description="""\
Print a script with which a shell completes commands, options and files. It names everything there is, so that
completing starts no Python.

examples:
  dpd completion bash > ~/.local/share/bash-completion/completions/dpd
  dpd completion zsh > ~/.zfunc/_dpd    # with ~/.zfunc in $fpath before compinit""",
    add_arguments=_add_arguments,
    run=_run,
)


def _actions(parser: ArgumentParser) -> Iterator[Action]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to see them
        yield action
        if isinstance(action, _SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
