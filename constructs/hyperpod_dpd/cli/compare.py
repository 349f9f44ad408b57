"""`dpd compare`: what one benchmark result gains over another."""

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path

from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import Format, add_format, paint, print_json, print_line
from hyperpod_dpd.evidence.compare import Comparison, Difference, NotComparableError, Row, compare
from hyperpod_dpd.evidence.figures import NothingMeasuredError
from hyperpod_dpd.evidence.results import BenchmarkResult, System, UnreadableResultError, read_result
from hyperpod_dpd.evidence.soundness import flaws, path_shares

_HELP = "name a result that a benchmark, or `dpd rehearse --results`, has written"


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("new", metavar="NEW", type=Path, help="result of the system that is judged")
    parser.add_argument(
        "old", metavar="OLD", type=Path, help="result that it is judged by, such as a baseline's"
    )
    for difference, help_text in _DIFFERENCES.items():
        parser.add_argument(f"--different-{difference}", action="store_true", help=help_text)
    add_format(parser)


_DIFFERENCES = {
    Difference.PROMPTS: "compare although the prompts differ; intervals are wider then",
    Difference.GPUS: "compare although one side has more GPUs, as the announcement does",
    Difference.TRAFFIC: "compare although lengths, load generator or concurrencies differ",
    Difference.MODEL: "compare although the models differ",
    Difference.KIND: "compare what was measured on GPUs with what was simulated",
}


def _run(arguments: Namespace) -> Exit:
    new, old = _load(arguments.new), _load(arguments.old)
    if new is None or old is None:
        return Exit.UNREADABLE
    may_differ = frozenset(each for each in Difference if getattr(arguments, f"different_{each}"))
    try:
        comparison = compare(new, old, may_differ=may_differ)
    except NotComparableError as error:
        for reason in error.reasons.values():
            print_line(f"{arguments.new} and {arguments.old}", "error", reason)
        return Exit.FINDINGS
    except NothingMeasuredError as error:
        print_line(f"{arguments.new} or {arguments.old}", "error", str(error))
        return Exit.FINDINGS
    if arguments.format == Format.JSON:
        print_json(_as_dict(comparison))
    else:
        _print_text(comparison)
    sys.stdout.flush()
    for path, result in ((arguments.new, new), (arguments.old, old)):
        for flaw in flaws(result):
            print_line(str(path), "warning", flaw)
    return Exit.FINDINGS if flaws(new) or flaws(old) else Exit.OK


COMMAND = Command(
    description="""\
Say what one benchmark result gains over another: latencies and throughput at every concurrency, per GPU and per dollar, with
intervals of 95 %, and what the announcement shows beside them.

Results that measure different things are refused: other prompts, GPU counts, traffic or models, unless an option allows it.
Exit code 1 when they are refused, or when one of them has flaws (named on standard error).

example: dpd compare build/dpd.json build/baseline.json""",
    add_arguments=_add_arguments,
    run=_run,
)


def _load(path: Path) -> BenchmarkResult | None:
    try:
        return read_result(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "not text"
        print_line(str(path), "error", f"cannot be read: {reason[:1].lower()}{reason[1:]}. help: {_HELP}")
    except UnreadableResultError as error:
        print_line(str(path), "error", str(error))
    return None


def _print_text(comparison: Comparison) -> None:
    for name, result in (("new", comparison.new), ("old", comparison.old)):
        print(f"{name}: {_system(result.system)}")
        shares = ", ".join(f"{share:.1%} {path}" for path, share in path_shares(result).items())
        print(f"     {shares}; {result.made_at}")
        print(f"     connection: {result.connection or 'not recorded'}")
    traffic = comparison.new.traffic
    print(
        f"\nD({traffic.input_tokens},{traffic.output_tokens}) by {traffic.tool}, {comparison.seeds} "
        f"{'seed' if comparison.seeds == 1 else 'seeds'}, "
        f"{'paired by seed' if comparison.is_paired else 'not paired'}"
    )
    for says in comparison.allowed.values():
        print(f"{paint('allowed', 'warning', sys.stdout)}: {says.partition('. help:')[0]}")
    for level in comparison.left_out:
        print(f"{paint('left out', 'warning', sys.stdout)}: concurrency {level}, which only one of them has")
    announced = any(row.announced for row in comparison.rows)
    table = [["C", "", "new", "old", "change", "95 % interval", *(["announced"] if announced else [])]]
    before = None
    for row in comparison.rows:
        if row.concurrency != before and before is not None:
            table.append([])
        shown = "" if row.concurrency == before else str(row.concurrency)
        table.append([shown, *_cells(row), *([row.announced] if announced else [])])
        before = row.concurrency
    print()
    _print_table(table)
    if announced:
        print(
            "\nannounced: D(4096,256), 50 requests a run, two nodes against one, on the GPU that decodes here"
        )
    if comparison.seeds == 1:
        print("\nno intervals: one seed says nothing about the spread. help: measure with three")


def _system(system: System) -> str:
    workers = " + ".join(
        f"{each.count} {each.role} × {each.gpus_per_worker} GPUs of `{each.instance_type}`"
        for each in system.workers
    )
    price = "no price" if system.usd_per_hour is None else f"${system.usd_per_hour:,.2f}/h ({system.price})"
    kind = f", SIMULATED without a GPU: {system.engine}" if system.simulated else ""
    return f"{system.deployment}, {system.profile}: {workers}, {price}{kind}"


def _cells(row: Row) -> list[str]:
    measure = row.measure
    values = ["–" if value is None else f"{value * measure.scale:,.2f}" for value in (row.new, row.old)]
    change, interval = "–", "–"
    if row.change is not None:
        change = f"{row.change.value:+.1%}"
        if row.change.low is not None and row.change.high is not None:
            interval = f"{row.change.low:+.1%} to {row.change.high:+.1%}"
            interval += "" if row.change.is_clear else " (unclear)"
    return [f"{measure.title}, {measure.unit}", *values, change, interval]


def _print_table(table: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in table if row) for column in range(len(table[0]))]
    for row in table:
        cells = [
            cell.rjust(width) if 2 <= column <= 4 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        print("  ".join(cells).rstrip())


def _as_dict(comparison: Comparison) -> dict[str, object]:
    return {
        **{
            name: {
                "system": _system(result.system),
                "gpus": result.system.gpus,
                "usd_per_hour": result.system.usd_per_hour,
                "simulated": result.system.simulated,
                "connection": None if result.connection is None else asdict(result.connection),
                "paths": path_shares(result),
                "flaws": list(flaws(result)),
            }
            for name, result in (("new", comparison.new), ("old", comparison.old))
        },
        "seeds": comparison.seeds,
        "paired": comparison.is_paired,
        "left_out_concurrencies": list(comparison.left_out),
        "allowed": {kind.value: says.partition(". help:")[0] for kind, says in comparison.allowed.items()},
        "rows": [
            {
                "concurrency": row.concurrency,
                "measure": row.measure.name,
                "new": row.new,
                "old": row.old,
                "change": None if row.change is None else row.change.value,
                "low": None if row.change is None else row.change.low,
                "high": None if row.change is None else row.change.high,
                "announced": row.announced or None,
            }
            for row in comparison.rows
        ],
    }
