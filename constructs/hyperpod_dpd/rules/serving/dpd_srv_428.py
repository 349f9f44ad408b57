"""DPD-SRV-428: images of one's own bring what traces need."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-428",
    severity=Severity.WARNING,
    title="images that are not built by this project have OpenTelemetry where traces are asked for",
    sources=("vLLM 0.25.1 vllm/config/observability.py", "router/dpd_router/tracing.py"),
)
def given_images_can_trace(deployment: Deployment) -> Iterator[Problem]:
    """Router and vLLM refuse to start when they are to send traces and cannot."""
    if deployment.routing.tracing_endpoint is None:
        return
    images = deployment.platform.images
    given = {
        "platform.images.router": (images.router, "`dpd-router[otel]`"),
        "platform.images.worker": (images.worker, "vLLM's OpenTelemetry packages"),
        "serving.engine.image": (deployment.serving.engine.image, "vLLM's OpenTelemetry packages"),
    }
    for path, (image, needs) in given.items():
        if image is not None:
            yield Problem(
                path=path,
                says=f"an image of one's own has to bring {needs}, and what starts in it refuses to otherwise",
                given=f"`{path.rpartition('.')[2]}: {image}` with `routing.tracing_endpoint`",
                fix="add the packages and acknowledge the warning, or leave `tracing_endpoint` out",
            )
