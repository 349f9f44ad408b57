"""DPD-SRV-423: autoscaling has metrics to decide by."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES, self_managed
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-423",
    severity=Severity.ERROR,
    title="the metrics of workers that are scaled reach Amazon Managed Service for Prometheus",
    sources=(
        "KEDA documentation, Prometheus scaler",
        "aws/sagemaker-hyperpod-cli charts/inference-operator (serverAddress takes AMP workspaces only)",
    ),
)
def scaling_has_metrics(deployment: Deployment) -> Iterator[Problem]:
    """Without metrics the fallback holds for ever: the role is never scaled, and nobody says so."""
    scaled = [role for role in ROLES if deployment.serving.worker(role).scaling is not None]
    if not scaled:
        return
    if self_managed(deployment):
        if deployment.platform.scraping == "none":
            yield Problem(
                path="platform.scraping",
                says="nobody reads the metrics by which workers are scaled",
                given=f"`scraping: none` with `serving.{scaled[0].value}.scaling`",
                fix="set `scraping: collector`, or remove `scaling`",
            )
    elif not deployment.serving.operator.metrics:
        yield Problem(
            path="serving.operator.metrics",
            says="nobody reads the metrics by which workers are scaled",
            given=f"`metrics: false` with `serving.{scaled[0].value}.scaling`",
            fix="remove `metrics: false`, or remove `scaling`",
        )
