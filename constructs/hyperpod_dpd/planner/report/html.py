"""The plan as one HTML page: self-contained, printable, readable without a network."""

from collections.abc import Callable
from html import escape

from hyperpod_dpd.physics import GIB
from hyperpod_dpd.planner.plan import Curve, Plan
from hyperpod_dpd.planner.report import tables
from hyperpod_dpd.planner.report.page import figure, page, paragraph, table
from hyperpod_dpd.planner.report.svg import Bar, Block, Limit, Part, Series, gantt, line_chart, stacked_bars
from hyperpod_dpd.planner.timeline import Timeline
from hyperpod_dpd.planner.workbench import Evaluation


def plan_as_html(plan: Plan) -> str:
    """Return `plan` as one page without scripts and without anything to fetch."""
    body = [f"<h1>Plan of {escape(plan.deployment.name)}</h1>", paragraph(tables.heading(plan), "note")]
    if plan.verdict is not None:
        body.append(paragraph(f"Verdict: {plan.verdict.text}.", "lead"))
    if plan.traffic is not None:
        body += ["<h2>Shape</h2>", *map(paragraph, tables.recommendation_lines(plan))]
        body += ["<h2>Routing threshold</h2>", *map(paragraph, tables.threshold_lines(plan))]
    body += [paragraph(f"warning: {warning}", "warning") for warning in plan.warnings]
    if plan.traffic is not None:
        body += [table(tables.traffic_table(plan)), table(tables.capacity_table(plan))]
    if plan.curves:
        body += [f"<h2>Over the number of users: {escape(_lengths(plan))}</h2>", _plots(plan)]
    body += ["<h2>One request on an idle system</h2>", _timelines(plan)] if plan.timelines else []
    body += [table(tables.fit_table(plan)), _memory(plan)]
    if not plan.fits:
        body.append(paragraph(tables.fit_text(plan), "warning"))
    body += ["<h2>Transfer</h2>", *map(paragraph, tables.transfer_lines(plan))]
    body += ["<h2>Cost</h2>", *map(paragraph, tables.cost_lines(plan))]
    body.append(
        paragraph(
            "Every figure is a prediction of a step-time and queueing model, none is a measurement of this deployment.",
            "note",
        )
    )
    return page(f"Plan of {plan.deployment.name}", body)


def _lengths(plan: Plan) -> str:
    traffic = plan.deployment.traffic
    if traffic.trace_file is not None:
        return "lengths of the trace"
    return f"{traffic.input_tokens:,} tokens in, {traffic.output_tokens:,} out"


def _plots(plan: Plan) -> str:
    slo = plan.deployment.slo
    figures = []
    if all(point.evaluation.summary.tpot_seconds for curve in plan.curves for point in curve.points):
        figures.append(
            _line(
                plan,
                "Time per output token",
                "TPOT, mean (ms)",
                lambda one: one.summary.tpot_seconds.mean * 1e3 if one.summary.tpot_seconds else 0.0,
                Limit(label=f"limit {slo.tpot_p95_seconds * 1e3:g} ms", value=slo.tpot_p95_seconds * 1e3),
            )
        )
    figures.append(
        _line(
            plan,
            "Time to first token",
            "TTFT, P95 (s)",
            lambda one: one.summary.ttft_seconds.p95,
            Limit(label=f"limit {slo.ttft_p95_seconds:g} s", value=slo.ttft_p95_seconds),
        )
    )
    figures.append(
        _line(
            plan,
            "Throughput per node",
            "tokens/s per node",
            lambda one: one.output_tokens_per_second_per_node,
        )
    )
    if all(point.evaluation.usd_per_hour for curve in plan.curves for point in curve.points):
        figures.append(
            _line(plan, "Throughput per dollar", "thousand tokens per $", _thousand_tokens_per_dollar)
        )
    return f'<div class="plots">{"".join(figures)}</div>'


def _thousand_tokens_per_dollar(one: Evaluation) -> float:
    return one.summary.output_tokens_per_second * 3.6 / (one.usd_per_hour or 1.0)


def _line(
    plan: Plan, caption: str, y_label: str, pick: Callable[[Evaluation], float], limit: Limit | None = None
) -> str:
    svg = line_chart(
        [_series(curve, pick) for curve in plan.curves],
        x_label="users (requests in flight)",
        y_label=y_label,
        title=caption,
        limit=limit,
    )
    return figure(caption, svg)


def _series(curve: Curve, pick: Callable[[Evaluation], float]) -> Series:
    return Series(
        label=curve.label,
        points=tuple((float(point.users), pick(point.evaluation)) for point in curve.points),
    )


def _memory(plan: Plan) -> str:
    bars = [
        Bar(
            label=row.worker,
            parts=tuple(
                Part(label=label, size=size / GIB)
                for label, size in (
                    ("weights", row.memory.weights_bytes),
                    ("activations, graphs, NCCL", row.memory.reserve_bytes),
                    ("KV cache", max(0, row.memory.kv_bytes)),
                    ("PD buffer", row.memory.pd_buffer_bytes),
                    ("free", max(0, row.memory.free_bytes)),
                )
            ),
        )
        for row in plan.fit
    ]
    return figure("Memory of one GPU", stacked_bars(bars, x_label="GiB", title="Memory of one GPU in GiB"))


def _timelines(plan: Plan) -> str:
    longest = max(timeline.first_token_seconds for _, timeline in plan.timelines)
    kinds = list(dict.fromkeys(span.what for _, timeline in plan.timelines for span in timeline.spans))
    return (
        '<div class="plots">'
        + "".join(
            figure(
                f"{name}: last token after {timeline.last_token_seconds:.2f} s",
                _gantt(timeline, kinds, until_seconds=1.35 * longest, title=f"One request, {name}"),
            )
            for name, timeline in plan.timelines
        )
        + "</div>"
    )


def _gantt(timeline: Timeline, kinds: list[str], *, until_seconds: float, title: str) -> str:
    return gantt(
        [
            Block(lane=span.lane, label=span.what, start=span.start_seconds * 1e3, end=span.end_seconds * 1e3)
            for span in timeline.spans
        ],
        kinds=kinds,
        marks=[
            (f"first token {timeline.first_token_seconds * 1e3:.0f} ms", timeline.first_token_seconds * 1e3)
        ],
        until=until_seconds * 1e3,
        x_label="milliseconds since the request",
        title=title,
    )
