"""Dashboards as Grafana reads them, built with grafana-foundation-sdk in its models of Grafana 11.6 (schema 41).

A plain install of that package gives the models of Grafana 10.1: its releases are `epoch!grafana-version`, and the oldest
Grafana has the highest epoch. Newer Grafanas migrate schema 41 when they load it.
"""

import json
from typing import Any, Final

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

from hyperpod_dpd.observability.dashboards.model import Board, Panel, Place, Section

SCHEMA_VERSION: Final = 41

_DATASOURCE: Final = "datasource"
_SOURCE: Final = models.DataSourceRef(type_val="prometheus", uid=f"${{{_DATASOURCE}}}")


def as_json(board: Board) -> str:
    """Return `board` as JSON: for the import into a managed Grafana and for a ConfigMap."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags(["hyperpod-dpd"])
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable(_DATASOURCE).label("Data source").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("deployment")
            .label("Deployment")
            .datasource(_SOURCE)
            .query("label_values(up, deployment)")
            .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        )
    )
    for number, (part, place) in enumerate(board.layout(), start=1):
        if isinstance(part, Section):
            made.with_row(dashboard.Row(part.title).id(number).grid_pos(_grid(place)))
        else:
            made.with_panel(_panel(part, number, place))
    content: dict[str, Any] = json.loads(JSONEncoder().encode(made.build()))
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _panel(panel: Panel, number: int, place: Place) -> stat.Panel | timeseries.Panel:
    made = _stat() if panel.kind == "stat" else _timeseries(panel)
    made = (
        made.id(number)
        .title(panel.title)
        .description(panel.description)
        .unit(panel.unit.value)
        .datasource(_SOURCE)
        .grid_pos(_grid(place))
    )
    for letter, query in zip("ABCDEFGH", panel.queries, strict=False):
        asked = prometheus.Dataquery().ref_id(letter).expr(query.expression)
        if panel.kind == "stat":
            # of a range, the last number of a series that ended long ago would be shown as today's
            asked.instant()
        made.with_target(asked.legend_format(query.legend).datasource(_SOURCE))
    return made


def _stat() -> stat.Panel:
    return (
        stat.Panel()
        .graph_mode(common_models.BigValueGraphMode.NONE)
        # Grafana's own colors begin with green, whatever the number
        .color_mode(common_models.BigValueColorMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def _timeseries(panel: Panel) -> timeseries.Panel:
    made = (
        timeseries.Panel()
        .min(0)
        .line_width(1)
        .fill_opacity(20 if panel.stacked else 0)
        .show_points(common_models.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(common_models.LegendDisplayMode.TABLE)
            .placement(common_models.LegendPlacement.BOTTOM)
            .calcs(["mean", "max"])
            .show_legend(True)  # noqa: FBT003 -- the builder's signature
        )
    )
    if panel.stacked:
        made.stacking(common.StackingConfig().mode(common_models.StackingMode.NORMAL))
    return made


def _grid(place: Place) -> models.GridPos:
    return models.GridPos(x=place.x, y=place.y, w=place.width, h=place.height)
