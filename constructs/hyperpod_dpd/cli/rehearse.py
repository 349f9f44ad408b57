"""`dpd rehearse`: the rendered manifests as processes of this machine."""

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hyperpod_dpd.cli.command import Command, seconds_between
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import print_finding, print_line, print_mistakes, print_unwritable
from hyperpod_dpd.cli.rehearse_view import showing
from hyperpod_dpd.derive import UnresolvedError
from hyperpod_dpd.lint.read import UnreadableManifestError
from hyperpod_dpd.planner.simulation import PromptTooLongError
from hyperpod_dpd.rehearsal.engines import Gpu, gpus, interpreter_with_engines
from hyperpod_dpd.rehearsal.faults import KINDS, Fault, FaultError, parse_fault
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.packages import refuse_without_packages
from hyperpod_dpd.rehearsal.trouble import RefusedError
from hyperpod_dpd.rules.check import check
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import UnreadableDeploymentError, load

if TYPE_CHECKING:
    from hyperpod_dpd.rehearsal.rehearsal import Rehearsal

_PROFILES: Final = ("self-managed", "baseline")
_RENDERED: Final = Path("manifests/rendered")
_MOST_USERS: Final = 512
_COMPRESSION: Final = 1.5
"""Both profiles in two and a half minutes, with a third of two cores' time."""

_READY_SECONDS: Final = 120.0
_REAL_READY_SECONDS: Final = 900.0
"""Real engines take two minutes each, one after the other in the worst case."""


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="deployment file, or `-` for standard input")
    parser.add_argument(
        "--profile",
        action="append",
        metavar="NAME",
        help="profile to rehearse, may be given several times (default: self-managed and baseline; with faults: "
        "self-managed)",
    )
    parser.add_argument(
        "--manifests",
        type=Path,
        metavar="DIR",
        help="folder with a folder for each profile (default: manifests/rendered/NAME of the deployment)",
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        type=_fault,
        metavar="FAULT",
        help=f"run mixed traffic under this fault instead: {', '.join(KINDS)}, with `=VALUE` and `@SECONDSs`; may be "
        "given several times",
    )
    parser.add_argument(
        "--fault-seconds",
        type=seconds_between(5, 3600),
        default=45.0,
        metavar="SECONDS",
        help="length of the traffic under faults (default: 45)",
    )
    parser.add_argument(
        "--users",
        type=_users,
        default=(8, 16, 32, 64),
        metavar="N,N,…",
        help="users of the announcement's scenario, one run after the other (default: 8,16,32,64)",
    )
    parser.add_argument(
        "--requests-per-user",
        type=_count,
        default=2,
        metavar="N",
        help="requests of each user, 50 in all at least (default: 2)",
    )
    parser.add_argument(
        "--compression",
        type=_compression,
        metavar="FACTOR",
        help="simulated seconds that pass for the engines in a real one (default: 1.5; with faults 1, because the router's "
        "own timeouts are real)",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="simulate engines, also where a GPU, vLLM, LMCache and NIXL are there",
    )
    parser.add_argument(
        "--no-prometheus", action="store_true", help="watch with no Prometheus, also if installed"
    )
    parser.add_argument("--no-proof", action="store_true", help="leave the proof out")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write everything as JSON")
    parser.add_argument("--html", type=Path, metavar="PATH", help="also write a page with plots")
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="also write a result for `dpd compare` for each profile"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep volumes and logs in this new folder")


def _fault(text: str) -> Fault:
    try:
        return parse_fault(text)
    except FaultError as error:
        raise ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000:
        raise ArgumentTypeError(f"`{text}` is no number from 1 to 1000")
    return int(text)


def _users(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= _MOST_USERS for part in parts):
        raise ArgumentTypeError(f"`{text}` is no list of numbers from 1 to {_MOST_USERS}, such as `8,16`")
    return tuple(dict.fromkeys(int(part) for part in parts))


def _compression(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0.01 <= factor <= 100:
        raise ArgumentTypeError(f"`{text}` is no factor between 0.01 and 100")
    return factor


def _run(arguments: Namespace) -> Exit:
    try:
        file = load(arguments.file)
    except UnreadableDeploymentError as error:
        print_mistakes(error)
        return Exit.UNREADABLE
    deployment = file.deployment
    if errors := check(deployment).errors:
        for finding in errors:
            print_finding(finding.located_in(file))
        return Exit.FINDINGS
    folders = _folders(arguments, deployment)
    wrong = [
        (folder, "no such folder. help: render the deployment with `make synth`")
        for _, folder in folders
        if not folder.is_dir()
    ]
    if arguments.keep is not None and arguments.keep.is_dir() and any(arguments.keep.iterdir()):
        wrong.append((arguments.keep, "not empty. help: name a new folder for `--keep`"))
    wrong += _unwritable(arguments)
    for path, says in wrong:
        print_line(str(path), "error", says)
    return Exit.UNREADABLE if wrong else _rehearse(deployment, folders, arguments)


def _unwritable(arguments: Namespace) -> Iterator[tuple[Path, str]]:
    """Yield what could not be written at the end: that is said before minutes are spent."""
    for file in filter(None, (arguments.json, arguments.html)):
        if file.is_dir():
            yield file, "is a folder. help: name a file"
        elif not file.parent.is_dir():
            yield file, f"cannot be written: there is no folder `{file.parent}`. help: create it first"
        elif not os.access(file if file.exists() else file.parent, os.W_OK):
            yield file, "cannot be written. help: name a place that may be written"
    if arguments.results is not None and arguments.fault:
        yield arguments.results, "would stay empty: with `--fault` nothing is run that can be compared"
    for folder in filter(None, (arguments.results, arguments.keep)):
        there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not there.is_dir():
            yield folder, f"cannot be made: `{there}` is no folder. help: choose another name"
        elif not os.access(there, os.W_OK):
            yield folder, f"cannot be written: nothing may be made in `{there}`. help: choose another place"


def _needing_simulation(arguments: Namespace) -> Iterator[str]:
    """Yield what real engines cannot do."""
    yield from (f"`{each}`" for each in arguments.fault if not each.kind.works_on_real_engines)
    if arguments.compression not in (None, 1.0):
        yield f"`--compression {arguments.compression:g}`"
    if arguments.results is not None:
        # one rank on one GPU is not the system that the manifests describe
        yield "`--results`"


def _rehearse(deployment: Deployment, folders: list[tuple[str, Path]], arguments: Namespace) -> Exit:
    devices = () if arguments.simulate or interpreter_with_engines() is None else gpus()
    if devices and (needing := list(_needing_simulation(arguments))):
        says = f"{', '.join(needing)} needs simulated engines. help: add `--simulate`"
        print_line(str(arguments.file), "error", says)
        return Exit.UNREADABLE
    try:
        refuse_without_packages()
        from hyperpod_dpd.rehearsal.rehearsal import rehearse_profiles  # noqa: PLC0415 - needs them

        with showing(sys.stderr) as show:
            rehearsal = rehearse_profiles(
                deployment,
                folders,
                options=_options(arguments, deployment, devices),
                keep=arguments.keep,
                show=show,
            )
    except UnreadableManifestError as error:
        for reason in error.reasons:
            print_line(reason.location, "error", reason.message)
        return Exit.UNREADABLE
    except RefusedError as error:
        for each in error.troubles:
            print_line(each.location, "error", each.message)
        count = len(error.troubles)
        says = f"{count} trouble{'' if count == 1 else 's'}, nothing was measured"
        print(f"{arguments.file}: {says}", flush=True)
        return Exit.FINDINGS
    except (UnresolvedError, PromptTooLongError) as error:
        print_line(str(arguments.file), "error", str(error))
        return Exit.FINDINGS
    except OSError as error:
        print_line(
            str(error.filename or "rehearsal"), "error", f"{error.strerror or error}; nothing was measured"
        )
        return Exit.UNREADABLE
    return _show(rehearsal, arguments)


def _folders(arguments: Namespace, deployment: Deployment) -> list[tuple[str, Path]]:
    root = arguments.manifests or _RENDERED / deployment.name
    profiles = arguments.profile or (_PROFILES[:1] if arguments.fault else _PROFILES)
    return [(name, root / name) for name in dict.fromkeys(profiles)]


def _options(arguments: Namespace, deployment: Deployment, devices: tuple[Gpu, ...]) -> Options:
    return Options(
        compression=arguments.compression or (1.0 if arguments.fault or devices else _COMPRESSION),
        gpus=devices,
        ready_seconds=_REAL_READY_SECONDS if devices else _READY_SECONDS,
        users=arguments.users,
        requests_per_user=arguments.requests_per_user,
        input_tokens=deployment.traffic.input_tokens,
        output_tokens=deployment.traffic.output_tokens,
        monitors=not arguments.no_prometheus,
        proves=not arguments.no_proof,
        faults=tuple(arguments.fault),
        fault_seconds=arguments.fault_seconds,
    )


COMMAND = Command(
    description="""\
Run the rendered manifests of a deployment on this machine, without GPU and account: the real router, engines that take
their step times from the planner, a loopback address for each pod. What Kubernetes would refuse or leave pending is said
before anything starts.

Then the announcement's scenario runs through the router for each profile, and is compared with the planner and the
announcement; or mixed traffic runs under faults. A Prometheus watches with the deployment's rules where one is installed,
and the proof runs at the end. Progress and troubles go to standard error, tables to standard output. The exit code is 3
when nothing was wrong and this machine was too slow for the times to mean anything.

examples: dpd rehearse deployments/llama-3.3-70b-p5.yaml --html rehearsal.html
          dpd rehearse deployments/llama-3.3-70b-p5.yaml --fault decoder-crash@10s --fault notify-loss=5%""",
    add_arguments=_add_arguments,
    run=_run,
)


def _show(rehearsal: "Rehearsal", arguments: Namespace) -> Exit:
    from hyperpod_dpd.rehearsal.report.text import print_rehearsal  # noqa: PLC0415 - after a run that takes minutes

    print_rehearsal(rehearsal, sys.stdout)
    sys.stdout.flush()
    for each in rehearsal.troubles:
        print_line(each.location, "error", each.message)
    try:
        _write(rehearsal, arguments)
    except OSError as error:
        return print_unwritable(error.filename, error)
    if rehearsal.troubles:
        return Exit.FINDINGS
    return Exit.UNDECIDED if any(result.outcome.undecided for result in rehearsal.results) else Exit.OK


def _write(rehearsal: "Rehearsal", arguments: Namespace) -> None:
    if arguments.json is not None:
        import json  # noqa: PLC0415

        from hyperpod_dpd.rehearsal.report.data import rehearsal_as_dict  # noqa: PLC0415

        text = json.dumps(rehearsal_as_dict(rehearsal), indent=2)
        arguments.json.write_text(f"{text}\n", encoding="utf-8")
    if arguments.html is not None:
        from hyperpod_dpd.rehearsal.report.html import rehearsal_as_html  # noqa: PLC0415

        arguments.html.write_text(rehearsal_as_html(rehearsal), encoding="utf-8")
    if arguments.results is not None:
        from hyperpod_dpd.rehearsal.report.benchmark import benchmark_results  # noqa: PLC0415

        arguments.results.mkdir(parents=True, exist_ok=True)
        for profile, result in benchmark_results(rehearsal).items():
            (arguments.results / f"{profile}.json").write_text(result.as_json(), encoding="utf-8")
