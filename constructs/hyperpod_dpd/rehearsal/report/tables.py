"""The results as tables that terminal and page share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hyperpod_dpd.catalog.announcement import ANNOUNCED
from hyperpod_dpd.planner.report.tables import Table
from hyperpod_dpd.planner.summary import Summary
from hyperpod_dpd.planner.workload import ClosedLoop, FixedLengths
from hyperpod_dpd.rehearsal.measure import Measurement
from hyperpod_dpd.rehearsal.prediction import predict
from hyperpod_dpd.rehearsal.rehearsal import Rehearsal
from hyperpod_dpd.rehearsal.run import ProfileResult
from hyperpod_dpd.rehearsal.run.result import BEARABLE_BLIND_SECONDS
from hyperpod_dpd.rehearsal.traffic import Ending

_NOTHING: Final = "–"


def tables(rehearsal: Rehearsal) -> Iterator[Table]:
    """Yield every table that the results fill."""
    for result in rehearsal.results:
        if result.outcome.runs:
            yield runs_table(result)
    if rehearsal.disaggregated is not None and rehearsal.colocated is not None:
        yield comparison_table(rehearsal, rehearsal.disaggregated, rehearsal.colocated)
    for result in rehearsal.results:
        if result.outcome.mixed is not None:
            yield mixed_table(result, result.outcome.mixed)
        if result.outcome.under_faults is not None:
            yield fault_table(result, result.outcome.under_faults)


def runs_table(result: ProfileResult) -> Table:
    """Return what was measured through the router, beside the planner's prediction."""
    rows = []
    for run in result.outcome.runs:
        seen, planned = run.observed, run.predicted
        rows.append(
            (
                f"{run.users}",
                f"{len(run.answers)}",
                _milliseconds(None if seen is None else seen.tpot_mean_seconds),
                _milliseconds(_tpot(planned)),
                _percent(run.tpot_difference),
                _milliseconds(None if seen is None else seen.ttft_mean_seconds, digits=0),
                _milliseconds(None if planned is None else planned.ttft_seconds.mean, digits=0),
                _seconds(None if seen is None else seen.e2e_p50_seconds),
                _seconds(None if planned is None else planned.e2e_seconds.p50),
                _whole(None if seen is None else seen.output_tokens_per_second),
                _whole(None if planned is None else planned.output_tokens_per_second),
                _decisions(run),
            )
        )
    return Table(
        title=f"{result.profile}: measured through the router, and by the planner",
        headers=(
            "users",
            "requests",
            "TPOT ms",
            "planner ms",
            "differ- ence",
            "TTFT ms",
            "planner ms",
            "E2E P50 s",
            "planner s",
            "tokens /s",
            "planner /s",
            "decisions",
        ),
        rows=tuple(rows),
        note=_pace(result),
    )


def comparison_table(rehearsal: Rehearsal, new: ProfileResult, old: ProfileResult) -> Table:
    """Return what disaggregation changes: measured, predicted, announced."""
    announced = ANNOUNCED.get(rehearsal.gpu)
    rows = []
    for run in new.outcome.runs:
        other = next((each for each in old.outcome.runs if each.users == run.users), None)
        if other is None or run.observed is None or other.observed is None:
            continue
        seen, base = run.observed, other.observed
        # what the planner says of all ranks of a node is nothing to compare one rank with
        one_node = _one_node(rehearsal, run) if new.simulated else None
        rows.append(
            (
                f"{run.users}",
                _change(seen.tpot_mean_seconds, base.tpot_mean_seconds),
                _change(_tpot(run.predicted), _tpot(other.predicted)),
                _change(seen.e2e_p50_seconds, base.e2e_p50_seconds),
                _change(seen.output_tokens_per_second, base.output_tokens_per_second),
                _change(seen.ttft_mean_seconds, base.ttft_mean_seconds),
                _change(seen.tpot_mean_seconds, _tpot(one_node)),
                _change(
                    seen.output_tokens_per_second, one_node.output_tokens_per_second if one_node else None
                ),
                _signed(None if announced is None else announced.tpot_percent.get(run.users)),
            )
        )
    return Table(
        title=f"{new.profile} against {old.profile}, per cent",
        headers=(
            "users",
            "TPOT",
            "TPOT planner",
            "E2E P50",
            "tokens /s",
            "TTFT",
            "TPOT against one node",
            "tokens /s against one node",
            "TPOT announced",
        ),
        rows=tuple(rows),
        note=_announced_note(rehearsal),
    )


def _announced_note(rehearsal: Rehearsal) -> str:
    announced = ANNOUNCED.get(rehearsal.gpu)
    note = (
        "both profiles on the same number of GPUs, except against one node: there the planner's colocated worker on one "
        "node stands on the other side, as in the announcement"
    )
    if announced is None:
        return note
    least, most = announced.e2e_p50_percent
    return (
        f"{note}. Announced for {announced.gpu}: E2E P50 {least:g} to {most:g} %, output throughput up to "
        f"{announced.output_throughput_percent:+g} %, concurrencies not said"
    )


def _one_node(rehearsal: Rehearsal, run: Measurement) -> Summary | None:
    shape = rehearsal.colocated_shape
    if shape is None:
        return None
    lengths = FixedLengths(input_tokens=rehearsal.input_tokens, output_tokens=rehearsal.output_tokens)
    loop = ClosedLoop(concurrency=run.users, lengths=lengths, requests=len(run.answers))
    return predict(rehearsal.deployment, replace(shape, decoders=1), loop)


def mixed_table(result: ProfileResult, run: Measurement) -> Table:
    """Return how the router took long and short prompts."""
    rows = []
    for tokens in sorted({answer.input_tokens for answer in run.answers}):
        answers = [each for each in run.answers if each.input_tokens == tokens]
        answered = [each for each in answers if each.ending is Ending.ANSWERED]
        mean = sum(each.ttft for each in answered) / len(answered) if answered else None
        paths = sorted({each.path for each in answered})
        counts = ", ".join(f"{sum(each.path == path for each in answered)} {path}" for path in paths)
        rows.append(
            (f"{tokens:,}", f"{len(answers)}", f"{len(answered)}", _milliseconds(mean, digits=0), counts)
        )
    return Table(
        title=f"{result.profile}: long and short prompts together, {run.users} users",
        headers=("prompt tokens", "sent", "answered", "TTFT ms", "router's decision"),
        rows=tuple(rows),
    )


def fault_table(result: ProfileResult, run: Measurement) -> Table:
    """Return what became of the requests under faults."""
    counted = run.counted
    rows = [
        *((f"requests {name}", f"{count}") for name, count in run.endings.items()),
        *(
            (f"decided {name}", f"{count:.0f}")
            for name, count in sorted(counted.by("dpd_router_decisions_total", "decision").items())
        ),
        *(
            (f"hand-offs failed: {name}", f"{count:.0f}")
            for name, count in sorted(counted.by("dpd_router_handoff_failures_total", "reason").items())
            if count
        ),
        ("retried on another worker", f"{counted.sum('dpd_router_retries_total'):.0f}"),
        ("drained", f"{counted.sum('dpd_router_drains_total'):.0f}"),
        ("hand-offs left at the router", _count(result.outcome.leftover.hand_offs)),
        ("chunks left in decoders' buffers", _chunks(result.outcome.leftover.chunks)),
        ("processes left", f"{len(result.left_behind)}"),
        ("alerts", _alerts(result)),
        ("proof afterwards", _proof(result)),
    ]
    return Table(
        title=f"{result.profile} under {', '.join(map(str, result.faults))}",
        headers=("what", "how many"),
        rows=tuple(rows),
        note="; ".join(result.events),
    )


def status_lines(result: ProfileResult) -> Iterator[str]:
    """Yield what else there is to say about one profile."""
    yield (
        f"{result.profile}: {result.real_seconds:.0f} s, {result.cpu_seconds:.0f} s of CPU time, alerts: "
        f"{_alerts(result)}, proof: {_proof(result)}, hand-offs left: {_count(result.outcome.leftover.hand_offs)}, "
        f"processes left: {len(result.left_behind)}"
    )
    for note in (*result.notes, *(() if result.simulated else result.replaced)):
        yield f"note: {note}"
    if result.outcome.too_slow:
        yield (
            f"warning: this machine was too slow by {result.outcome.lost_seconds:.1f} simulated seconds: times are too long, "
            "and nothing was concluded from how they differ from the planner's. "
            f"help: lower `--compression`, {result.compression:g} now"
        )
    if result.faults and result.outcome.blind_seconds > BEARABLE_BLIND_SECONDS:
        yield (
            f"warning: this machine was too slow for Prometheus, which knew nothing of a pod for {result.outcome.blind_seconds:.1f} s: "
            "nothing was concluded from its alerts. help: run it while the machine has nothing else to do"
        )


def _pace(result: ProfileResult) -> str:
    if not result.simulated:
        return "real engines of one rank each, in real time; there is nothing that the planner says of them"
    pace = (
        "in real time"
        if result.compression == 1
        else f"time compressed {result.compression:g} times, for engines; the router runs in real time"
    )
    return (
        f"simulated engines, step times of the planner, {pace}; times are simulated ones, means unless said"
    )


def _alerts(result: ProfileResult) -> str:
    if result.outcome.alerts is None:
        return "not watched"
    return ", ".join(sorted(result.outcome.alerts)) or "none"


def _proof(result: ProfileResult) -> str:
    return "not asked for" if result.outcome.proof is None else result.outcome.proof.verdict.value


def _chunks(left: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{name}: {max(used)}" for name, used in left.items() if used) or _NOTHING


def _count(number: int | None) -> str:
    return _NOTHING if number is None else f"{number}"


def _decisions(run: Measurement) -> str:
    return ", ".join(f"{count:.0f} {name}" for name, count in sorted(run.decisions.items()) if count)


def _tpot(summary: Summary | None) -> float | None:
    return None if summary is None or summary.tpot_seconds is None else summary.tpot_seconds.mean


def _change(new: float | None, old: float | None) -> str:
    return _NOTHING if new is None or not old else f"{(new / old - 1) * 100:+.0f}"


def _signed(number: float | None) -> str:
    return _NOTHING if number is None else f"{number:+g}"


def _percent(share: float | None) -> str:
    return _NOTHING if share is None else f"{share:+.1%}"


def _milliseconds(seconds: float | None, *, digits: int = 1) -> str:
    return _NOTHING if seconds is None else f"{seconds * 1e3:,.{digits}f}"


def _seconds(seconds: float | None) -> str:
    return _NOTHING if seconds is None else f"{seconds:.2f}"


def _whole(number: float | None) -> str:
    return _NOTHING if number is None else f"{number:,.0f}"
