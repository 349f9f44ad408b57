"""Amazon Managed Grafana with the dashboards in it."""

from hyperpod_dpd.observability.managed_grafana.workspace import ManagedGrafana

__all__ = ["ManagedGrafana"]
