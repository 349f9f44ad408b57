"""`dpd status`: how a deployment is doing."""

import json
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperpod_dpd.cli.command import Command, seconds_between
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import Format, add_format, counted, print_json, print_line, print_mistakes
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import UnreadableDeploymentError, load

if TYPE_CHECKING:
    from hyperpod_dpd.status.observation import Snapshot
    from hyperpod_dpd.status.outside import Outside

_LEAST_INTERVAL_SECONDS = 2.0
_LONGEST_INTERVAL_SECONDS = 3600.0


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="deployment file, or `-` for standard input")
    add_format(parser)
    parser.add_argument("--profile", metavar="NAME", help="profile of the AWS configuration to ask with")
    parser.add_argument(
        "--context", metavar="NAME", help="context of the kubeconfig (default: the current one)"
    )
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help="address of the endpoint as this machine reaches it; `/ready` is asked",
    )
    parser.add_argument("--watch", action="store_true", help="look again and again until interrupted")
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=seconds_between(_LEAST_INTERVAL_SECONDS, _LONGEST_INTERVAL_SECONDS),
        default=15.0,
        help="time between two looks with --watch (default: 15)",
    )


def _run(arguments: Namespace) -> Exit:
    try:
        deployment = load(arguments.file).deployment
    except UnreadableDeploymentError as error:
        print_mistakes(error)
        return Exit.UNREADABLE
    outside = _outside(deployment, arguments)
    if outside is None:
        return Exit.UNREADABLE
    if arguments.watch:
        return _watch(deployment, outside, arguments)
    from hyperpod_dpd.status.look import look  # noqa: PLC0415 - starts boto3

    snapshot = look(deployment, outside)
    if arguments.format == Format.JSON:
        print_json({"deployment": deployment.name, **snapshot.as_dict()})
    elif sys.stdout.isatty():
        _console().print(_table(deployment, snapshot))
    else:
        print("\n".join(_lines(snapshot)))
        print(_summary(deployment, snapshot))
    return _exit(snapshot)


COMMAND = Command(
    description="""\
Say how a deployment is doing: its stacks, EKS with its add-ons, HyperPod with groups, nodes and events, pods by role
(through kubectl, when the kubeconfig knows the cluster), the endpoint, and alerts. Nothing is changed.

A table on a terminal, a line for each thing in a pipe. What may not be looked at is said with the permission that is
missing. With --watch a pipe gets the lines that changed, with the time; JSON is one document a line.

Exit code 0 means that everything seen is well, 1 that something is not or is on its way, 3 that something could not
be looked at.

examples:
  dpd status deployments/llama-3.3-70b-p5.yaml --watch
  dpd status deployments/llama-3.3-70b-p5.yaml --endpoint http://127.0.0.1:8081 --format json""",
    add_arguments=_add_arguments,
    run=_run,
)


def _outside(deployment: Deployment, arguments: Namespace) -> "Outside | None":
    import boto3  # noqa: PLC0415 - help and messages about the file shall not wait for it
    from botocore.exceptions import ProfileNotFound  # noqa: PLC0415

    from hyperpod_dpd.preflight.account import AwsAccount  # noqa: PLC0415
    from hyperpod_dpd.status.outside import Machine  # noqa: PLC0415

    try:
        session = boto3.Session(profile_name=arguments.profile, region_name=deployment.region)
    except ProfileNotFound as error:
        print_line("dpd", "error", f"{error}. help: `aws configure list-profiles` lists the profiles")
        return None
    account = AwsAccount(region=deployment.region, session=session)
    return Machine(session=session, account=account, context=arguments.context, endpoint=arguments.endpoint)


def _watch(deployment: Deployment, outside: "Outside", arguments: Namespace) -> Exit:
    """Look until interrupted; Ctrl-C ends it with the exit code of an interruption."""
    from hyperpod_dpd.status.look import look  # noqa: PLC0415

    pause = threading.Event()
    if arguments.format == Format.TEXT and sys.stdout.isatty():
        from rich.live import Live  # noqa: PLC0415 - only a terminal needs it

        with Live(console=_console(), auto_refresh=False, vertical_overflow="visible") as live:
            while True:
                live.update(_table(deployment, look(deployment, outside)), refresh=True)
                pause.wait(arguments.interval)
    known: set[str] = set()
    while True:
        snapshot = look(deployment, outside)
        if arguments.format == Format.JSON:
            print(json.dumps({"deployment": deployment.name, **snapshot.as_dict()}), flush=True)
        else:
            lines = [*_lines(snapshot), _summary(deployment, snapshot)]
            time = f"{snapshot.at:%H:%M:%S}"
            sys.stdout.writelines(f"{time} {line}\n" for line in lines if line not in known)
            sys.stdout.flush()
            known = set(lines)
        pause.wait(arguments.interval)


def _exit(snapshot: "Snapshot") -> Exit:
    from hyperpod_dpd.status.observation import State  # noqa: PLC0415

    if any(row.state in (State.BUSY, State.ILL) for row in snapshot.rows):
        return Exit.FINDINGS
    return Exit.UNDECIDED if any(not gap.skipped for gap in snapshot.unseen) else Exit.OK


def _summary(deployment: Deployment, snapshot: "Snapshot") -> str:
    from hyperpod_dpd.status.observation import State  # noqa: PLC0415

    states = (State.WELL, State.BUSY, State.ILL)
    counts = ", ".join(f"{snapshot.count(state)} {state}" for state in states)
    unseen = counted(sum(not gap.skipped for gap in snapshot.unseen), "thing")
    return f"{deployment.name} in {deployment.region}: {counts}, {unseen} unseen"


def _lines(snapshot: "Snapshot") -> Iterator[str]:
    """Yield one line for each thing, its state first, so that `grep ^ill` works."""
    from hyperpod_dpd.status.observation import Row  # noqa: PLC0415

    for section in snapshot.sections:
        for answer in section.answers:
            if isinstance(answer, Row):
                detail = f"  {_one_line(answer.detail)}" if answer.detail else ""
                yield f"{answer.state:<7}  {answer.kind:<8}  {answer.name}  {answer.word}{detail}"
            else:
                state = "skipped" if answer.skipped else "unseen"
                yield f"{state:<7}  {'':<8}  {answer.what}: {_one_line(answer.why)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _console() -> Any:
    from rich.console import Console  # noqa: PLC0415

    return Console(highlight=False)


_COLOURS = {
    "well": "green",
    "busy": "yellow",
    "ill": "bold red",
    "note": "cyan",
    "unseen": "magenta",
    "skipped": "dim",
}


def _table(deployment: Deployment, snapshot: "Snapshot") -> Any:
    from rich import box  # noqa: PLC0415
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from hyperpod_dpd.status.observation import Row  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, expand=False)
    for header in ("", "what", "name", "says", "detail"):
        table.add_column(header, overflow="fold")
    for section in snapshot.sections:
        for answer in section.answers:
            if isinstance(answer, Row):
                state = answer.state.value
                cells = (answer.kind, answer.name, answer.word, _one_line(answer.detail))
            else:
                state = "skipped" if answer.skipped else "unseen"
                cells = (section.title, answer.what, "", _one_line(answer.why))
            table.add_row(Text(state, style=_COLOURS[state]), *map(Text, cells))
        table.add_section()
    heading = Text(f"{_summary(deployment, snapshot)} at {snapshot.at:%Y-%m-%d %H:%M:%S} UTC", style="bold")
    return Group(heading, table)
