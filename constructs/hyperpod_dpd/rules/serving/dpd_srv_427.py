"""DPD-SRV-427: traces do not go to the port of the other protocol."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_GRPC_PORT = 4317


@deployment_rule(
    "DPD-SRV-427",
    severity=Severity.WARNING,
    title="`tracing_endpoint` does not name port 4317, where collectors expect gRPC",
    sources=("OpenTelemetry Collector, OTLP receiver: 4317 gRPC, 4318 HTTP",),
)
def traces_do_not_go_to_grpc(deployment: Deployment) -> Iterator[Problem]:
    """The receiver drops what it does not understand, and no trace arrives."""
    endpoint = deployment.routing.tracing_endpoint
    if endpoint is not None and urlsplit(endpoint).port == _GRPC_PORT:
        yield Problem(
            path="routing.tracing_endpoint",
            says=f"port {_GRPC_PORT} is by convention that of gRPC, and traces are sent over HTTP",
            given=f"`tracing_endpoint: {endpoint}`",
            fix="write port 4318, or acknowledge that yours takes HTTP",
        )
