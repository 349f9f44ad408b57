"""DPD-SPEC-009: a managed Grafana has something to show."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SPEC-009",
    severity=Severity.ERROR,
    title="`grafana: managed` stands beside something that writes metrics",
    sources=("this project: the workspace of Amazon Managed Grafana reads the workspace of metrics",),
)
def managed_grafana_has_metrics(deployment: Deployment) -> Iterator[Problem]:
    """Without a workspace of metrics no Grafana would be made, and nothing would say so."""
    platform = deployment.platform
    if platform.grafana == "managed" and not platform.is_measured:
        yield Problem(
            path="platform.grafana",
            says="a managed Grafana would have no metrics to show",
            given=f"`grafana: managed` with `scraping: {platform.scraping}` and `observability_addon: false`",
            fix="set `scraping: collector` or `observability_addon: true`, or `grafana: self-hosted`",
        )
