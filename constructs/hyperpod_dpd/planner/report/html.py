"""The plan as one HTML page: self-contained, printable, readable without a network."""

from collections.abc import Callable
from html import escape

from hyperpod_dpd.physics import GIB
from hyperpod_dpd.planner.plan import Curve, Plan
from hyperpod_dpd.planner.report import tables
from hyperpod_dpd.planner.report.svg import Bar, Block, Limit, Part, Series, gantt, line_chart, stacked_bars
from hyperpod_dpd.planner.report.tables import Table
from hyperpod_dpd.planner.timeline import Timeline
from hyperpod_dpd.planner.workbench import Evaluation

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 1040px; margin: 0 auto;
  padding: 24px; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 30px 0 8px; }
p { margin: 4px 0; } .lead { font-size: 16px; border-left: 4px solid #0b5cad; padding: 8px 12px; background: #f1f6fb; }
.note { color: #555; font-size: 13px; } .warning { border-left: 4px solid #b45309; padding: 4px 12px; margin: 6px 0; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 8px; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { border-bottom: 2px solid #888; vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
.scroll { overflow-x: auto; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); gap: 18px 26px; }
figure { margin: 0; max-width: 560px; break-inside: avoid; } figcaption { font-weight: 600; margin-bottom: 2px; }
svg { width: 100%; height: auto; font: 13px system-ui, sans-serif; }
svg text { fill: #222; } svg .axis { font-weight: 600; } svg .inside { fill: #fff; font-weight: 600; }
svg .grid { stroke: #ddd; stroke-width: 1; }
@media (max-width: 520px) { .plots { grid-template-columns: 1fr; } body { padding: 12px; } }
@page { size: A4; margin: 13mm; }
@media print { body { padding: 0; max-width: none; font-size: 11.5px; } h1 { font-size: 17px; } h2 { font-size: 13.5px;
  margin: 16px 0 4px; } .lead { font-size: 12px; } .note { font-size: 10.5px; } table { font-size: 10.5px; }
  th, td { padding: 3px 5px; } .plots { grid-template-columns: 1fr 1fr; gap: 12px 16px; } h2 { break-after: avoid; }
  tr, .warning { break-inside: avoid; } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""


def plan_as_html(plan: Plan) -> str:
    """Return `plan` as one page without scripts and without anything to fetch."""
    body = [f"<h1>Plan of {escape(plan.deployment.name)}</h1>", _paragraph(tables.heading(plan), "note")]
    if plan.verdict is not None:
        body.append(_paragraph(f"Verdict: {plan.verdict.text}.", "lead"))
    if plan.traffic is not None:
        body += ["<h2>Shape</h2>", *map(_paragraph, tables.recommendation_lines(plan))]
        body += ["<h2>Routing threshold</h2>", *map(_paragraph, tables.threshold_lines(plan))]
    body += [_paragraph(f"warning: {warning}", "warning") for warning in plan.warnings]
    if plan.traffic is not None:
        body += [_table(tables.traffic_table(plan)), _table(tables.capacity_table(plan))]
    if plan.curves:
        body += [f"<h2>Over the number of users: {escape(_lengths(plan))}</h2>", _plots(plan)]
    body += ["<h2>One request on an idle system</h2>", _timelines(plan)] if plan.timelines else []
    body += [_table(tables.fit_table(plan)), _memory(plan)]
    if not plan.fits:
        body.append(_paragraph(tables.fit_text(plan), "warning"))
    body += ["<h2>Transfer</h2>", *map(_paragraph, tables.transfer_lines(plan))]
    body += ["<h2>Cost</h2>", *map(_paragraph, tables.cost_lines(plan))]
    body.append(
        _paragraph(
            "Every figure is a prediction of a step-time and queueing model, none is a measurement of this deployment.",
            "note",
        )
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Plan of {escape(plan.deployment.name)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(header)}</th>" for header in table.headers)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    note = _paragraph(table.note, "note") if table.note else ""
    return (
        f'<h2>{escape(table.title)}</h2><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )


def _figure(caption: str, svg: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{svg}</figure>"


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
    return _figure(caption, svg)


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
    return _figure("Memory of one GPU", stacked_bars(bars, x_label="GiB", title="Memory of one GPU in GiB"))


def _timelines(plan: Plan) -> str:
    longest = max(timeline.first_token_seconds for _, timeline in plan.timelines)
    kinds = list(dict.fromkeys(span.what for _, timeline in plan.timelines for span in timeline.spans))
    return (
        '<div class="plots">'
        + "".join(
            _figure(
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
