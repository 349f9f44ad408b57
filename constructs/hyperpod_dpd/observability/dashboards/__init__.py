"""Three dashboards: overview, workers, fabric. One source for Amazon Managed Grafana and for self-hosted ones."""

from hyperpod_dpd.observability.dashboards.boards import BOARDS
from hyperpod_dpd.observability.dashboards.grafana import as_json
from hyperpod_dpd.observability.dashboards.model import Board, Panel, Query, Section, Unit

__all__ = ["BOARDS", "Board", "Panel", "Query", "Section", "Unit", "as_json"]
