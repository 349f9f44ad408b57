"""Versions of Amazon Managed Grafana, and what each makes of a dashboard and of a signed data source."""

from typing import Final

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record


@record
class ManagedGrafanaVersion:
    """A version that a workspace may have."""

    version: str
    dashboard_schema_version: int
    """Newest schema of a dashboard that it reads; older ones it migrates when they are loaded."""
    prometheus_data_source: str
    """Plugin whose data source signs its requests to Amazon Managed Service for Prometheus."""
    source: Source


MANAGED_GRAFANA: Final = ManagedGrafanaVersion(
    version="12.4",
    dashboard_schema_version=42,
    # the core plugin cannot sign any more from version 12 on
    prometheus_data_source="grafana-amazonprometheus-datasource",
    source=Source(
        text="aws/amazon-managed-grafana-roadmap issues 94 and 103 (12.4 follows 10.4, and the default stays 10.4 unless a "
        "version is given); @grafana/schema 12.4.0 `defaultDashboard.schemaVersion`; Amazon Managed Grafana user guide, "
        "adding a Prometheus data source (SigV4 left the core plugin in version 12)",
        as_of="2026-11-30",
    ),
)
"""The pinned version: the oldest one that reads the dashboards' schema, 41. Version 10.4 stops at 39."""
