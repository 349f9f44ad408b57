"""`dpd explain`: what a rule demands, why, and where that comes from."""

import difflib
import sys
from typing import Annotated

import typer

from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import Format, paint, print_json


def explain_command(
    rule_id: Annotated[
        str | None, typer.Argument(metavar="RULE-ID", help="Rule to explain; all when absent.")
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.TEXT,
) -> None:
    """Explain a rule, or list all of them.

    Example: dpd explain DPD-NET-003
    """
    from hyperpod_dpd.rules.registry import Rule, rules  # noqa: PLC0415

    def as_dict(rule: Rule) -> dict[str, object]:
        return {
            "id": rule.id,
            "severity": rule.severity.value,
            "title": rule.title,
            "why": rule.why,
            "looks_at": rule.subject.value,
            "sources": list(rule.sources),
        }

    known = rules()
    if rule_id is None:
        if output is Format.JSON:
            print_json([as_dict(rule) for rule in known.values()])
        else:
            for rule in known.values():
                print(f"{rule.id:<13} {rule.severity.value:<8} {rule.title}")
        return
    found = known.get(rule_id.upper())
    if found is None:
        close = difflib.get_close_matches(rule_id.upper(), known, n=3)
        hint = (
            f"did you mean {', '.join(f'`{name}`' for name in close)}?"
            if close
            else "`dpd explain` lists all rules"
        )
        print(
            f"{paint('error', 'error', sys.stderr)}: unknown rule `{rule_id}`. help: {hint}", file=sys.stderr
        )
        raise typer.Exit(Exit.UNREADABLE)
    if output is Format.JSON:
        print_json(as_dict(found))
        return
    print(f"{paint(found.id, 'rule', sys.stdout)} ({found.severity.value}, looks at: {found.subject.value})")
    print(f"  must hold: {found.title}")
    print(f"  why: {found.why}")
    for source in found.sources:
        print(f"  source: {source}")
