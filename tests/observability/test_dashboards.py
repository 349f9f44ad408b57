"""Dashboards: what Grafana loads, what Prometheus understands, and what somebody can read."""

import json
import re
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.models.dashboard import Dashboard

from hyperpod_dpd.observability.dashboards import BOARDS, Board, Unit, as_json
from hyperpod_dpd.observability.dashboards.grafana import SCHEMA_VERSION
from hyperpod_dpd.serving.render import render_platform
from tests.support.deployments import changed, ready
from tests.support.manifests import of_kind
from tests.support.prometheus import check_expressions
from tools.docs_dashboards import FOLDER, picture

GRAFANA_UNITS = {
    "s", "mbytes", "Bps", "reqps", "percentunit", "percent", "short", "celsius", "pps",
    "suffix: tokens/s",
}  # fmt: skip
"""Ids of units that Grafana has (packages/grafana-data/src/valueFormats/categories.ts), and own suffixes."""


@cache
def loaded(board: Board) -> dict[str, Any]:
    content = json.loads(as_json(board))
    assert isinstance(content, dict)
    return content


def graphs(board: Board) -> list[dict[str, Any]]:
    return [panel for panel in loaded(board)["panels"] if panel["type"] != "row"]


each_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)


@each_board
def test_json_loads_in_the_pinned_models_and_comes_out_unchanged(board: Board) -> None:
    parsed = Dashboard.from_json(loaded(board))
    assert parsed.schema_version == SCHEMA_VERSION
    assert parsed.uid == board.uid
    assert parsed.panels is not None
    assert len(parsed.panels) == len(board.panels) + len(board.sections)


def test_uids_are_those_that_links_know() -> None:
    assert [board.uid for board in BOARDS] == ["dpd-overview", "dpd-workers", "dpd-fabric"]


@each_board
def test_no_panel_covers_another_and_none_leaves_the_grid(board: Board) -> None:
    places = [panel["gridPos"] for panel in loaded(board)["panels"]]
    for place in places:
        assert place["x"] + place["w"] <= 24
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


@each_board
def test_ids_are_unique(board: Board) -> None:
    ids = [panel["id"] for panel in loaded(board)["panels"]]
    assert len(set(ids)) == len(ids)


@each_board
def test_every_panel_has_a_title_a_description_a_unit_and_legends(board: Board) -> None:
    titles = [panel["title"] for panel in graphs(board)]
    assert len(set(titles)) == len(titles)
    for panel in graphs(board):
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in GRAFANA_UNITS, panel["title"]
        legends = [target["legendFormat"] for target in panel["targets"]]
        assert all(legends)
        assert len(set(legends)) == len(legends), panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"


def test_every_unit_is_used() -> None:
    used = {panel.unit for board in BOARDS for panel in board.panels}
    assert used == set(Unit)


@each_board
def test_legends_name_labels_that_the_expression_keeps(board: Board) -> None:
    for panel in graphs(board):
        for target in panel["targets"]:
            grouped = re.findall(r"\bby \(([^)]*)\)", target["expr"])
            if grouped:
                kept = {label.strip() for group in grouped for label in group.split(",")}
                assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, target


@each_board
def test_every_expression_is_promql(board: Board, tmp_path: Path) -> None:
    expressions = [target["expr"] for panel in graphs(board) for target in panel["targets"]]
    check_expressions(
        (each.replace("$__rate_interval", "2m").replace("$deployment", "x") for each in expressions), tmp_path
    )


@each_board
def test_pictures_are_up_to_date(board: Board) -> None:
    committed = (FOLDER / f"{board.uid}.svg").read_text(encoding="utf-8")
    assert committed == picture(loaded(board)), "run `make drift`"


def test_a_self_hosted_grafana_gets_the_same_json_as_a_managed_one() -> None:
    objects = render_platform(changed(ready(), platform__grafana="self-hosted")).objects
    maps = {
        entry["metadata"]["name"]: entry
        for entry in of_kind(objects, "ConfigMap")
        if entry["metadata"]["labels"].get("grafana_dashboard") == "1"
    }
    assert {name: entry["data"] for name, entry in maps.items()} == {
        board.uid: {f"{board.uid}.json": as_json(board)} for board in BOARDS
    }
    for entry in maps.values():
        # apply keeps a copy in an annotation, which may have 256 KiB
        assert len(json.dumps(entry)) < 200_000


@pytest.mark.parametrize("choice", ["none", "managed"])
def test_no_configmaps_without_a_grafana_on_the_cluster(choice: str) -> None:
    objects = render_platform(changed(ready(), platform__grafana=choice)).objects
    assert not [
        entry for entry in of_kind(objects, "ConfigMap") if "grafana" in json.dumps(entry["metadata"])
    ]


def test_a_number_is_that_of_now_and_no_color_calls_it_good() -> None:
    panels = [panel for board in BOARDS for panel in graphs(board) if panel["type"] == "stat"]
    assert panels
    for panel in panels:
        # of a range, the last number of a series that has ended would be shown
        assert all(target["instant"] and not target.get("range") for target in panel["targets"])
        assert panel["options"]["colorMode"] == "none"
