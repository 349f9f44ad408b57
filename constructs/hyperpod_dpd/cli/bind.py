"""`dpd bind`: put an account's values into rendered manifests."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import paint, print_unwritable
from hyperpod_dpd.serving.bindings import PLACEHOLDER, Binding, BindingError, bind, read_values


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "directory", type=Path, metavar="DIR", help="rendered profile, a folder of YAML files"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="values",
        help="value of a binding; may be repeated and wins over --outputs",
    )
    parser.add_argument(
        "--outputs",
        type=Path,
        metavar="FILE",
        help="JSON file that `cdk deploy --outputs-file FILE` has written",
    )
    parser.add_argument(
        "--to",
        type=Path,
        metavar="DIR",
        help="folder for the bound files; without it they go to standard output as one stream",
    )
    parser.add_argument("--list", action="store_true", help="list the bindings that DIR asks for, and end")


def _run(arguments: Namespace) -> Exit:
    try:
        texts = _read(arguments.directory)
        if arguments.list:
            _print_bindings(texts.values())
            return Exit.OK
        values = dict(_assignment(each) for each in arguments.values)
        bound = _bind_all(texts, read_values({**_outputs(arguments.outputs, values), **values}))
    except BindingError as error:
        for problem in error.problems:
            print(f"{paint('error', 'error', sys.stderr)}: {problem}", file=sys.stderr)
        return Exit.UNREADABLE
    if arguments.to is None:
        # the kustomization names files, of which a stream has none
        sys.stdout.write("".join(text for name, text in bound.items() if name != "kustomization.yaml"))
        return Exit.OK
    try:
        arguments.to.mkdir(parents=True, exist_ok=True)
        for name, text in bound.items():
            (arguments.to / name).write_text(text, encoding="utf-8")
    except OSError as error:
        return print_unwritable(error.filename or arguments.to, error)
    print(f"{arguments.to}: {len(bound)} files, every binding filled")
    return Exit.OK


COMMAND = Command(
    description="""\
Fill the `${dpd:NAME}` bindings of a rendered profile with the values of one account. Every problem is said at once,
and nothing is written while there is one.

example: dpd bind manifests/rendered/llama-3-3-70b-p5/self-managed --outputs outputs.json | kubectl apply -f -""",
    add_arguments=_add_arguments,
    run=_run,
)


def _read(directory: Path) -> dict[str, str]:
    try:
        texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(directory.glob("*.yaml"))}
    except (OSError, UnicodeDecodeError) as error:
        raise BindingError(
            (f"cannot read `{directory}`: {error}. help: name a folder that `make render` wrote",)
        ) from None
    if not texts:
        raise BindingError((f"no YAML file in `{directory}`. help: name a folder that `make render` wrote",))
    return texts


def _print_bindings(texts: Iterable[str]) -> None:
    asked = {name for text in texts for name in PLACEHOLDER.findall(text)}
    for binding in Binding:
        if binding.name in asked:
            print(f"{binding.name:<20} {binding.meaning} (stack output `{binding.output_key}`)")


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BindingError((f"`--set {text}` is not an assignment. help: write `--set NAME=VALUE`",))
    return name, value


def _outputs(path: Path | None, decided: Collection[str]) -> dict[str, str]:
    """Return the bindings among the outputs of every stack, without those that the command line has `decided`."""
    if path is None:
        return {}
    wrong = f"`{path}` is not a file of stack outputs. help: write it with `cdk deploy --outputs-file {path}`"
    try:
        stacks: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BindingError((wrong,)) from None
    if not isinstance(stacks, dict) or not all(isinstance(stack, dict) for stack in stacks.values()):
        raise BindingError((wrong,))
    found = {
        binding: {str(stack[binding.output_key]) for stack in stacks.values() if binding.output_key in stack}
        for binding in Binding
    }
    ambiguous = [
        f"stacks in `{path}` disagree on `{binding.name}`: given {', '.join(f'`{each}`' for each in sorted(values))}. "
        f"help: give `--set {binding.name}=VALUE`"
        for binding, values in found.items()
        if len(values) > 1 and binding.name not in decided
    ]
    if ambiguous:
        raise BindingError(tuple(ambiguous))
    return {binding.name: next(iter(values)) for binding, values in found.items() if len(values) == 1}


def _bind_all(texts: dict[str, str], values: dict[Binding, str]) -> dict[str, str]:
    """Return the bound files; the comment that announces bindings goes with them.

    Raises:
        BindingError: with the problems of every file, each once.
    """
    problems: dict[str, None] = {}
    bound = {}
    for name, text in texts.items():
        body = "".join(
            line for line in text.splitlines(keepends=True) if not line.startswith("# `dpd bind` fills")
        )
        try:
            bound[name] = bind(body, values)
        except BindingError as error:
            problems.update(dict.fromkeys(error.problems))
    if problems:
        raise BindingError(tuple(problems))
    return bound
