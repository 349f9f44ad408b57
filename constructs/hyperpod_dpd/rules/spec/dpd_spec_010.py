"""DPD-SPEC-010: GPU and EFA counters arrive where the alerts look for them."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SPEC-010",
    severity=Severity.WARNING,
    title="the exporters that alerts rely on write where the alerts are evaluated",
    sources=(
        "SageMaker developer guide, HyperPod observability add-on: it writes to an AMP workspace (2026-11-30)",
    ),
)
def counters_reach_the_alerts(deployment: Deployment) -> Iterator[Problem]:
    """Without counters `DpdEfaIdle` fires at every hand-off, and errors of GPUs and EFA devices are never seen."""
    platform = deployment.platform
    if platform.exporters != "observability-addon":
        return
    if platform.scraping == "prometheus-operator":
        yield Problem(
            path="platform.exporters",
            says="the add-on's counters do not reach the Prometheus that evaluates the alerts",
            given="`exporters: observability-addon` with `scraping: prometheus-operator`",
            fix="set `exporters: manifests`, or acknowledge this where your Prometheus reads the add-on's exporters",
        )
    elif platform.scraping == "collector" and not platform.observability_addon:
        yield Problem(
            path="platform.exporters",
            says="the add-on whose counters the alerts read is not installed",
            given="`exporters: observability-addon` with `observability_addon: false`",
            fix="set `exporters: manifests` or `observability_addon: true`",
        )
