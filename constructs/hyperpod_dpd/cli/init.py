"""`dpd init`: from a few answers to a commented deployment file."""

import os
import re
import shlex
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import paint, print_finding, print_unwritable
from hyperpod_dpd.draft.questions import QUESTIONS, Answers, Question, WrongAnswerError
from hyperpod_dpd.spec.load import STANDARD_INPUT

_SCHEMA = "deployment.schema.json"
"""Editors look beside the file; `dpd schema > deployment.schema.json` puts it there."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="deployment file to write")
    parser.add_argument(
        "--name", help="name of the deployment (default: made from the name of FILE, at most 40 characters)"
    )
    for question in QUESTIONS:
        parser.add_argument(question.flag, metavar=_metavar(question), help=_help(question))
    parser.add_argument(
        "--defaults", action="store_true", help="take the default wherever a flag is missing and there is one"
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE")


def _metavar(question: Question) -> str:
    return question.name.rpartition("_")[2].upper()


def _help(question: Question) -> str:
    offered = question.choices({}) if question.name in ("model", "instance_type", "region") else ()
    listed = f": {', '.join(offered)}" if offered else ""
    return f"{question.asks}{listed}"


def _run(arguments: Namespace) -> Exit:
    file: Path = arguments.file
    name = arguments.name or re.sub("[^a-z0-9]+", "-", file.stem.lower()).strip("-")[:40].strip("-")
    trouble = _refuse_file(file, force=arguments.force) or _refuse_name(name)
    if trouble:
        _complain(trouble)
        return Exit.UNREADABLE
    given = {
        question.name: getattr(arguments, question.name)
        for question in QUESTIONS
        if getattr(arguments, question.name) is not None
    }
    interactive = sys.stdin.isatty() and sys.stderr.isatty()
    known = (
        _asked(given) if interactive and not arguments.defaults else _read(given, defaults=arguments.defaults)
    )
    if known is None:
        return Exit.UNREADABLE
    return _write(file, name, Answers(**known))


COMMAND = Command(
    description="""\
Ask what is to be served, where and for whom, plan it, and write a deployment file whose comments say why each value
was chosen. The file passes `dpd check`.

Questions are asked on a terminal for what no flag answers. Without a terminal, or with `--defaults`, nothing is
asked: a missing answer is an error that names its flag. Answers that cannot be right are refused with the reason.

examples: dpd init deployments/chat.yaml
          dpd init chat.yaml --defaults --zone-id use1-az6 --concurrency 64""",
    add_arguments=_add_arguments,
    run=_run,
)


def _refuse_file(file: Path, *, force: bool) -> str:
    if file.is_dir():
        return f"`{file}` is a folder. help: name a file in it"
    if file == STANDARD_INPUT:
        return f"`{file}` is standard input. help: name a file to write, such as `deployments/chat.yaml`"
    if file.exists() and not force:
        return f"`{file}` exists. help: choose another name, or give `--force` to overwrite it"
    if not file.parent.is_dir():
        return f"no folder `{file.parent}`. help: create it first"
    return ""


def _refuse_name(name: str) -> str:
    if _NAME.fullmatch(name):
        return ""
    return (
        f"not a name of a deployment: given `{name}`; limit 40 lower-case letters, digits and hyphens. "
        "help: give `--name`"
    )


def _read(given: Mapping[str, str], *, defaults: bool) -> dict[str, Any] | None:
    """Return the answers of the command line, or None after saying everything that is missing or wrong."""
    known: dict[str, Any] = {}
    for question in QUESTIONS:
        try:
            known[question.name] = _answer(question, given.get(question.name), known, defaults=defaults)
        except WrongAnswerError as error:
            _complain(f"`{question.flag}` {error}")
        except KeyError:
            # an answer on which this one depends was refused, and has to be mended first
            continue
    return known if len(known) == len(QUESTIONS) else None


def _answer(question: Question, text: str | None, known: Mapping[str, Any], *, defaults: bool) -> Any:
    if text is None and defaults:
        text = question.default(known)
    if text is None:
        raise WrongAnswerError(_missing(question, known))
    return question.read(text, known)


def _missing(question: Question, known: Mapping[str, Any]) -> str:
    try:
        choices, default, hint = question.choices(known), question.default(known), question.hint(known)
    except KeyError:
        choices, default, hint = (), None, ""
    offered = f"one of {', '.join(f'`{each}`' for each in choices)}" if choices else ""
    usual = f"`--defaults` takes `{default}`" if default else ""
    return (
        f"is missing: {question.asks}. help: {'; '.join(filter(None, (offered, hint, usual))) or 'give it'}"
    )


def _asked(given: Mapping[str, str]) -> dict[str, Any] | None:
    try:
        return _ask(given)
    except EOFError:
        print(file=sys.stderr)
        _complain("the input ended before every question was answered, so nothing was written")
        return None


def _ask(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the answers of the flags and, for the rest, of the person at the terminal."""
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.padding import Padding  # noqa: PLC0415
    from rich.prompt import InvalidResponse, Prompt  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(stderr=True, highlight=False)
    known: dict[str, Any] = {}

    class Answer(Prompt):
        def process_response(self, value: str) -> str:
            try:
                question.read(value.strip(), known)
            except WrongAnswerError as error:
                raise InvalidResponse(Text(str(error), style="red")) from None
            return value

        def on_validate_error(self, _value: str, error: InvalidResponse) -> None:
            self.console.print(error.message)

    for question in QUESTIONS:
        if question.name in given:
            try:
                known[question.name] = question.read(given[question.name], known)
                continue
            except WrongAnswerError as error:
                console.print(Text(f"{question.flag} {error}", style="red"))
        for text in (", ".join(question.choices(known)), question.hint(known)):
            if text:
                console.print(Padding(Text(text, style="dim"), (0, 0, 0, 2)))
        default = question.default(known)
        # a default of None would be taken for an answer
        if default is None:
            answer = Answer.ask(question.asks, console=console)
        else:
            answer = Answer.ask(question.asks, console=console, default=default)
        known[question.name] = question.read(answer.strip(), known)
    return known


def _write(file: Path, name: str, answers: Answers) -> Exit:
    # the planner is loaded only when there is something to plan
    from hyperpod_dpd.draft.choose import NoDraftError, draft  # noqa: PLC0415
    from hyperpod_dpd.draft.text import deployment_text  # noqa: PLC0415

    try:
        with _patience(f"planning `{name}`"):
            found = draft(answers, name=name)
    except NoDraftError as error:
        _complain(f"no deployment of these answers passes the rules, so `{file}` was not written")
        for finding in error.findings:
            print_finding(finding)
        return Exit.FINDINGS
    text = deployment_text(found, schema=_SCHEMA, command=_command(file, name, answers))
    try:
        _replace(file, text)
    except OSError as error:
        return print_unwritable(file, error)
    verdict = found.plan.verdict
    print(f"{file}: written, passes `dpd check`")
    print(f"  verdict: {verdict.text if verdict else 'none'}")
    print(f"  price: {found.plan.burn}")
    for entry in found.deployment.acknowledge:
        print(f"  acknowledged for you, read it: {entry.rule}: {entry.reason}")
    print(f"  next: dpd plan {shlex.quote(str(file))}")
    return Exit.OK


def _patience(what: str) -> Any:
    from rich.console import Console  # noqa: PLC0415

    # rich shows it on a terminal only
    return Console(stderr=True).status(f"{what} …")


def _command(file: Path, name: str, answers: Answers) -> str:
    flags = " ".join(
        f"{question.flag} {shlex.quote(str(getattr(answers, question.name)))}" for question in QUESTIONS
    )
    return f"dpd init {shlex.quote(file.name)} --name {name} {flags}"


def _replace(file: Path, text: str) -> None:
    """Write `text` into `file` at once: whoever reads it sees the old text or the new one."""
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _complain(text: str) -> None:
    says, separator, fix = text.partition(". help: ")
    if separator:
        says = f"{says}. {paint('help:', 'help', sys.stderr)} {fix}"
    print(f"{paint('error', 'error', sys.stderr)}: {says}", file=sys.stderr)
