"""The results as one HTML page: self-contained, printable, readable without a network."""

from collections.abc import Callable, Iterator

from hyperpod_dpd.planner.report.page import figure, page, paragraph, table
from hyperpod_dpd.planner.report.svg import Series, line_chart
from hyperpod_dpd.rehearsal.measure import Measurement
from hyperpod_dpd.rehearsal.rehearsal import Rehearsal
from hyperpod_dpd.rehearsal.report.tables import status_lines, tables


def rehearsal_as_html(rehearsal: Rehearsal) -> str:
    """Return the results as one page without scripts and without anything to fetch."""
    name = rehearsal.deployment.name
    body = [
        f"<h1>Rehearsal of {name}</h1>",
        paragraph(
            f"{rehearsal.made_at}. The rendered manifests as processes of one machine: the real router, "
            f"{_engines(rehearsal)}.",
            "lead",
        ),
        *(paragraph(str(each), "warning") for each in rehearsal.troubles),
        *_plots(rehearsal),
        *map(table, tables(rehearsal)),
        "<h2>How it ran</h2>",
        *(paragraph(line) for result in rehearsal.results for line in status_lines(result)),
        "<h2>What stands for what</h2>",
        *map(paragraph, dict.fromkeys(line for result in rehearsal.results for line in result.replaced)),
    ]
    return page(f"Rehearsal of {name}", body)


def _engines(rehearsal: Rehearsal) -> str:
    if all(result.simulated for result in rehearsal.results):
        return "simulated engines with the planner's step times. No GPU, no EFA, no network was involved"
    return "real engines of one rank without the model's weights. No EFA was involved"


def _plots(rehearsal: Rehearsal) -> Iterator[str]:
    if not any(len(result.outcome.runs) > 1 for result in rehearsal.results):
        return
    figures = (
        ("Time per output token", "TPOT, mean (ms)", _tpot_milliseconds, _predicted_tpot_milliseconds),
        ("Output throughput", "tokens/s", _throughput, _predicted_throughput),
        ("Time to first token", "TTFT, mean (ms)", _ttft_milliseconds, _predicted_ttft_milliseconds),
    )
    shown = "".join(
        figure(caption, _chart(rehearsal, caption, label, measured, predicted))
        for caption, label, measured, predicted in figures
    )
    yield f'<h2>Over the number of users</h2><div class="plots">{shown}</div>'


Value = Callable[[Measurement], float | None]


def _chart(rehearsal: Rehearsal, title: str, label: str, measured: Value, predicted: Value) -> str:
    series = []
    for result in rehearsal.results:
        for name, value in (("measured", measured), ("planner", predicted)):
            points = tuple(
                (float(run.users), found) for run in result.outcome.runs if (found := value(run)) is not None
            )
            if points:
                series.append(Series(label=f"{result.profile}, {name}", points=points))
    return line_chart(series, x_label="users", y_label=label, title=title)


def _tpot_milliseconds(run: Measurement) -> float | None:
    return None if run.observed is None else run.observed.tpot_mean_seconds * 1e3


def _predicted_tpot_milliseconds(run: Measurement) -> float | None:
    if run.predicted is None or run.predicted.tpot_seconds is None:
        return None
    return run.predicted.tpot_seconds.mean * 1e3


def _throughput(run: Measurement) -> float | None:
    return None if run.observed is None else run.observed.output_tokens_per_second


def _predicted_throughput(run: Measurement) -> float | None:
    return None if run.predicted is None else run.predicted.output_tokens_per_second


def _ttft_milliseconds(run: Measurement) -> float | None:
    return None if run.observed is None else run.observed.ttft_mean_seconds * 1e3


def _predicted_ttft_milliseconds(run: Measurement) -> float | None:
    return None if run.predicted is None else run.predicted.ttft_seconds.mean * 1e3
