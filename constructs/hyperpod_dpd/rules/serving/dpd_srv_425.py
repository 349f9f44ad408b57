"""DPD-SRV-425: a Prometheus operator's metrics are where KEDA looks for them."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES, self_managed
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-425",
    severity=Severity.WARNING,
    title="workers are scaled by metrics that this project itself writes to AMP",
    sources=("KEDA documentation, Prometheus scaler (AMP, SigV4)",),
)
def scaled_metrics_are_in_amp(deployment: Deployment) -> Iterator[Problem]:
    """KEDA asks AMP; a Prometheus operator writes there only when somebody has told it to."""
    if not self_managed(deployment) or deployment.platform.scraping != "prometheus-operator":
        return
    scaled = [role for role in ROLES if deployment.serving.worker(role).scaling is not None]
    if scaled:
        yield Problem(
            path="platform.scraping",
            says="workers are scaled by metrics in AMP, where this Prometheus operator may not write them",
            given=f"`scraping: prometheus-operator` with `serving.{scaled[0].value}.scaling`",
            fix="let it write to the workspace (`remoteWrite`) and acknowledge the warning, or use "
            "`scraping: collector`",
        )
