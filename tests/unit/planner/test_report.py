"""The page: self-contained, escaped, labelled."""

import dataclasses
import io
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from hyperpod_dpd.planner.plan import make_plan
from hyperpod_dpd.planner.report import tables
from hyperpod_dpd.planner.report.html import plan_as_html
from hyperpod_dpd.planner.report.svg import Bar, Limit, Part, Series, line_chart, nice_ticks, stacked_bars
from hyperpod_dpd.planner.report.text import print_plan
from hyperpod_dpd.spec.load import load

DEFAULT = Path(__file__).parents[3] / "deployments" / "llama-3.3-70b-p5.yaml"


@pytest.fixture(scope="module")
def page() -> str:
    return plan_as_html(make_plan(load(DEFAULT).deployment, curves=True))


def test_page_fetches_nothing_and_runs_nothing(page: str) -> None:
    assert not re.search(r"(src|href)\s*=|url\(|@import|<script|<link|<iframe", page)


def test_every_plot_names_its_axes_with_units(page: str) -> None:
    axes = re.findall(r'class="axis">([^<]+)<', page)
    assert {
        "users (requests in flight)",
        "TPOT, mean (ms)",
        "TTFT, P95 (s)",
        "tokens/s per node",
        "thousand tokens per $",
        "milliseconds since the request",
        "GiB",
    } == set(axes)


def test_every_plot_is_well_formed_and_holds_only_numbers(page: str) -> None:
    plots = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert len(plots) == 7
    for plot in plots:
        ET.fromstring(plot)
        assert not re.search(r"\b(nan|inf)\b", plot, flags=re.IGNORECASE)


def test_names_are_escaped() -> None:
    deployment = load(DEFAULT).deployment
    hostile = dataclasses.replace(deployment, name="<script>alert(1)</script>")
    page = plan_as_html(make_plan(hostile))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_plan_that_does_not_fit_still_has_a_page() -> None:
    deployment = load(DEFAULT).deployment
    serving = dataclasses.replace(deployment.serving, tensor_parallel=2)
    page = plan_as_html(make_plan(dataclasses.replace(deployment, serving=serving)))
    assert "the nearest that fits is `serving.tensor_parallel: 4`" in page


@pytest.mark.parametrize(
    ("largest", "last", "most"), [(7, 8, 6), (50, 50, 6), (0.034, 0.04, 6), (131, 150, 6), (1, 1, 6)]
)
def test_ticks_are_round_few_and_reach_the_largest_value(largest: float, last: float, most: int) -> None:
    ticks = nice_ticks(largest)
    assert ticks[0] == 0
    assert ticks[-1] == pytest.approx(last)
    assert len(ticks) - 1 <= most


@pytest.mark.parametrize("largest", [0.0, -1.0, float("nan"), float("inf")])
def test_axis_without_an_end_is_refused(largest: float) -> None:
    with pytest.raises(ValueError, match="positive end"):
        nice_ticks(largest)


def test_limit_far_above_every_line_is_named_instead_of_flattening_them() -> None:
    series = [Series(label="a", points=((1, 1.0), (2, 2.0)))]
    near = line_chart(series, x_label="x", y_label="y", title="t", limit=Limit(label="limit", value=4.0))
    far = line_chart(series, x_label="x", y_label="y", title="t", limit=Limit(label="limit", value=400.0))
    assert "(above the plot)" not in near
    assert "limit (above the plot)" in far
    assert ">400<" not in far


def test_parts_of_a_bar_are_drawn_to_scale() -> None:
    drawn = stacked_bars(
        [Bar(label="gpu", parts=(Part(label="a", size=30.0), Part(label="b", size=10.0)))],
        x_label="GiB",
        title="t",
    )
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="28"', drawn)]
    assert widths[0] == pytest.approx(3 * widths[1], rel=0.01)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_no_figure_is_left_out_on_any_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    plan = make_plan(load(DEFAULT).deployment)
    stream = _Terminal()
    print_plan(plan, stream)
    shown = stream.getvalue()
    for table in (tables.fit_table(plan), tables.traffic_table(plan), tables.capacity_table(plan)):
        for row in table.rows:
            assert all(cell in shown for cell in row[1:])
