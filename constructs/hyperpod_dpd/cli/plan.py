"""`dpd plan`: does it fit, is it worth it, what does it cost."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import Format, add_format, paint, print_json, print_unwritable
from hyperpod_dpd.derive import UnresolvedError
from hyperpod_dpd.planner.plan import Plan, make_plan
from hyperpod_dpd.planner.unplannable import UnplannableError
from hyperpod_dpd.spec.load import DeploymentFile, UnreadableDeploymentError, load


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="deployment file, or `-` for standard input")
    add_format(parser)
    parser.add_argument(
        "--json", dest="format", action="store_const", const=Format.JSON, help="same as `--format json`"
    )
    parser.add_argument("--html", metavar="PATH", type=Path, help="also write a report with plots to PATH")
    parser.add_argument(
        "--full",
        action="store_true",
        help="search every priced instance type, up to eight nodes, and every token budget",
    )


def _run(arguments: Namespace) -> Exit:
    try:
        file = load(arguments.file)
    except UnreadableDeploymentError as error:
        for mistake in error.mistakes:
            _say(f"{mistake.location}: {_red('error')}: {mistake.message}")
        return Exit.UNREADABLE
    try:
        plan = make_plan(file.deployment, full=arguments.full, curves=arguments.html is not None)
    except UnresolvedError as error:
        _say_obstacles(error, file)
        return Exit.FINDINGS
    except UnplannableError as error:
        _say(f"{file.path}: {_red('error')}: {error}")
        return Exit.FINDINGS
    return _show(plan, arguments)


COMMAND = Command(
    description="""\
Plan a deployment before anyone pays for it: memory fit, transfer, colocated against disaggregated at equal
hardware, best number of prefillers and decoders, routing threshold, cost, and whether it pays.

Every figure is a prediction. The band comes from two independent sets of constants.

example: dpd plan deployments/llama-3.3-70b-p5.yaml --html plan.html""",
    add_arguments=_add_arguments,
    run=_run,
)


def _show(plan: Plan, arguments: Namespace) -> Exit:
    # loaded here: each form of output needs a library of its own, and only one is asked for
    if arguments.format == Format.JSON:
        from hyperpod_dpd.planner.report.data import plan_as_dict  # noqa: PLC0415

        print_json(plan_as_dict(plan))
    else:
        from hyperpod_dpd.planner.report.text import print_plan  # noqa: PLC0415

        print_plan(plan, sys.stdout)
    if arguments.html is not None:
        from hyperpod_dpd.planner.report.html import plan_as_html  # noqa: PLC0415

        try:
            arguments.html.write_text(plan_as_html(plan), encoding="utf-8")
        except OSError as error:
            return print_unwritable(arguments.html, error)
    return Exit.OK if plan.fits else Exit.FINDINGS


def _say_obstacles(error: UnresolvedError, file: DeploymentFile) -> None:
    for obstacle in error.obstacles:
        name, line = file.place(obstacle.path)
        where = f"{name}:{line}" if line else name
        _say(f"{where}: {_red('error')}: {obstacle.says}: given {obstacle.given}. help: {obstacle.fix}")


def _red(text: str) -> str:
    return paint(text, "error", sys.stderr)


def _say(message: str) -> None:
    print(message, file=sys.stderr)
