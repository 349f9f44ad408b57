"""DPD-SPEC-011: labels of monitors are given where there are monitors."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SPEC-011",
    severity=Severity.ERROR,
    title="`scraping_labels` are given where a Prometheus operator scrapes",
    sources=("this project: only PodMonitors and PrometheusRules carry them",),
)
def labels_have_monitors(deployment: Deployment) -> Iterator[Problem]:
    """Labels that no object carries select nothing, and whoever wrote them waits for metrics."""
    platform = deployment.platform
    if platform.scraping_labels and platform.scraping != "prometheus-operator":
        yield Problem(
            path="platform.scraping_labels",
            says="no object would carry these labels",
            given=f"`scraping_labels` with `scraping: {platform.scraping}`",
            fix="set `scraping: prometheus-operator`, or remove `scraping_labels`",
        )
