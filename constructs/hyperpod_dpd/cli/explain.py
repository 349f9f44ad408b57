"""`dpd explain`: what a rule demands, why, and where that comes from."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.nearest import meant
from hyperpod_dpd.cli.output import Format, add_format, paint, print_json
from hyperpod_dpd.rules.registry import Rule, rules

if TYPE_CHECKING:
    from hyperpod_dpd.preflight.check import Check


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "rules",
        metavar="RULE-ID",
        nargs="*",
        help="rule or check to explain; all rules are listed when absent",
    )
    add_format(parser)


def _run(arguments: Namespace) -> Exit:
    wanted = [name.upper() for name in arguments.rules]
    # rules look at files, checks at the account; the latter are loaded when one of them is asked for
    known: dict[str, Rule | Check] = {**rules(), **_checks(wanted)}
    unknown = [name for name in wanted if name not in known]
    for name in unknown:
        print(f"{paint('error', 'error', sys.stderr)}: {_unknown_rule(name, known)}", file=sys.stderr)
    if unknown:
        return Exit.UNREADABLE
    chosen = [known[name] for name in wanted] or list(known.values())
    if arguments.format == Format.JSON:
        print_json([_as_dict(each) if isinstance(each, Rule) else _check_as_dict(each) for each in chosen])
    elif wanted:
        print(
            "\n\n".join(_as_text(each) if isinstance(each, Rule) else _check_as_text(each) for each in chosen)
        )
    else:
        _list(rules())
    return Exit.OK


def _list(known: Mapping[str, Rule]) -> None:
    width = max(map(len, known))
    for rule in known.values():
        print(f"{rule.id:<{width}}  {rule.severity.value:<7}  {rule.title}")


def _checks(wanted: Sequence[str]) -> Mapping[str, "Check"]:
    if not any(name.startswith("PRE-") for name in wanted):
        return {}
    from hyperpod_dpd.preflight.checks import ALL  # noqa: PLC0415

    return {check.id: check for check in ALL}


COMMAND = Command(
    description="""\
Say what a rule demands, why, what it looks at and where it comes from; without a rule id, list all rules.

example: dpd explain DPD-NET-003""",
    add_arguments=_add_arguments,
    run=_run,
)


def _unknown_rule(name: str, known: Collection[str]) -> str:
    return f"unknown rule `{name}`. help: {meant(name, known, otherwise='`dpd explain` lists all rules')}"


def _as_text(rule: Rule) -> str:
    lines = [
        f"{paint(rule.id, 'rule', sys.stdout)} ({rule.severity.value}, looks at: {rule.subject.value})",
        f"  must hold: {rule.title}",
        f"  why: {rule.why}",
        *(f"  source: {source}" for source in rule.sources),
    ]
    return "\n".join(lines)


def _check_as_text(check: "Check") -> str:
    lines = [
        f"{paint(check.id, 'rule', sys.stdout)} (error, looks at: account)",
        f"  must hold: {check.title}",
        *(f"  asks with: {action}" for action in check.actions),
    ]
    return "\n".join(lines)


def _check_as_dict(check: "Check") -> dict[str, object]:
    return {
        "id": check.id,
        "severity": "error",
        "title": check.title,
        "looks_at": "account",
        "actions": list(check.actions),
    }


def _as_dict(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "severity": rule.severity.value,
        "title": rule.title,
        "why": rule.why,
        "looks_at": rule.subject.value,
        "sources": list(rule.sources),
    }
