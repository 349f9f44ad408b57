"""What exists once per cluster: the collector, the exporters and the dashboards.

Several deployments on one cluster share it: nothing in it names one of them, except through the `platform` section
that they share.
"""

from typing import Final

from cdk8s import App, Chart
from constructs import Construct

from hyperpod_dpd.observability.collector import Collector
from hyperpod_dpd.observability.exporters import Exporters
from hyperpod_dpd.observability.jobs import EXPORTER_JOBS, exporters_namespace
from hyperpod_dpd.observability.monitors import Monitors
from hyperpod_dpd.observability.scraping import scraped_labels
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.flows import Exporter, Flow, collector_flows, exporter_flows
from hyperpod_dpd.serving.namespaces import PRIVILEGED, RESTRICTED
from hyperpod_dpd.serving.network_policies import NetworkPolicies
from hyperpod_dpd.serving.objects import api_object
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked

PLATFORM: Final = "platform"
"""Name of the rendering, beside the profiles of the deployment."""

_EXPORTERS: Final = tuple(Exporter(component=job.component, port=job.port) for job in EXPORTER_JOBS)


class PlatformCharts:
    """The charts of a cluster. What the platform section does not ask for is not rendered."""

    @checked
    def __init__(self, app: App, *, deployment: Deployment) -> None:
        """Add the charts to `app`; none where nothing is scraped, exported or shown."""
        self._app = app
        self._deployment = deployment
        platform = deployment.platform
        self._collects = platform.scraping == "collector"
        self._exports = platform.exporters == "manifests"
        if self._owned():
            self._namespaces()
            self._policies()
        if self._collects:
            Collector(self._chart("collector"), "collector", deployment=deployment)
        if self._exports:
            self._exporters()
        if platform.grafana == "self-hosted":
            self._dashboards()

    def _chart(self, name: str) -> Chart:
        return Chart(self._app, name, disable_resource_name_hashes=True)

    def _owned(self) -> dict[str, str]:
        """Return the namespaces that this project makes, with their Pod Security level.

        The scraper's is somebody else's where a Prometheus operator is there already.
        """
        platform = self._deployment.platform
        used = self._collects or platform.grafana == "self-hosted"
        foreign = platform.scraping == "prometheus-operator"
        owned = {platform.scraping_namespace: RESTRICTED} if used and not foreign else {}
        return {**owned, **({exporters_namespace(self._deployment): PRIVILEGED} if self._exports else {})}

    def _namespaces(self) -> None:
        chart = self._chart("namespaces")
        for name, level in self._owned().items():
            _namespace(chart, name, level, version=self._deployment.cluster.kubernetes_version)

    def _policies(self) -> None:
        NetworkPolicies(
            self._chart("network-policies"),
            "policies",
            deployment=self._deployment,
            flows=self._flows(),
            namespaces=dict.fromkeys(self._owned(), names.platform_labels()),
        )

    def _flows(self) -> tuple[Flow, ...]:
        deployment, namespace = self._deployment, exporters_namespace(self._deployment)
        exporters = _EXPORTERS if self._exports else ()
        collector = (
            collector_flows(deployment, scraped_labels(), exporters, namespace) if self._collects else ()
        )
        # the collector's own pods are named in its flows; of somebody else's scraper only the namespace is known
        others = () if self._collects else exporter_flows(deployment, exporters, namespace)
        return (*collector, *others)

    def _dashboards(self) -> None:
        # Grafana's models take a quarter of a second to import, for the few who have it on the cluster
        from hyperpod_dpd.observability.grafana import DashboardConfigMaps  # noqa: PLC0415

        DashboardConfigMaps(self._chart("dashboards"), "dashboards", deployment=self._deployment)

    def _exporters(self) -> None:
        deployment = self._deployment
        chart = self._chart("exporters")
        Exporters(chart, "exporters", deployment=deployment)
        if deployment.platform.scraping == "prometheus-operator":
            namespace = exporters_namespace(deployment)
            Monitors(
                chart,
                "monitors",
                deployment=deployment,
                jobs=tuple((job, namespace) for job in EXPORTER_JOBS),
            )


def _namespace(scope: Construct, name: str, level: str, *, version: str) -> None:
    security = {
        f"pod-security.kubernetes.io/{mode}{suffix}": value
        for mode in ("enforce", "audit")
        for suffix, value in (("", level), ("-version", f"v{version}"))
    }
    api_object(
        scope,
        name,
        api_version="v1",
        kind="Namespace",
        name=name,
        labels={**names.platform_labels(), **security},
    )
