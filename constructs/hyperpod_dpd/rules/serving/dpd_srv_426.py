"""DPD-SRV-426: traces have an address that both the router and vLLM can send to."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_ADDED = "/v1/traces"


@deployment_rule(
    "DPD-SRV-426",
    severity=Severity.ERROR,
    title="`tracing_endpoint` is the base address of OTLP over HTTP",
    sources=("OTLP specification 1.x, OTLP/HTTP request", "vLLM 0.25.1 vllm/tracing/otel.py"),
)
def traces_go_over_http(deployment: Deployment) -> Iterator[Problem]:
    """A failed export is a line in a worker's log and nothing else."""
    endpoint = deployment.routing.tracing_endpoint
    if endpoint is None:
        return
    url = urlsplit(endpoint)
    if url.scheme not in {"http", "https"}:
        yield Problem(
            path="routing.tracing_endpoint",
            says="router and workers send traces over HTTP",
            given=f"`tracing_endpoint: {endpoint}`",
            limit="`http://` or `https://`",
            fix="give the collector's OTLP/HTTP receiver, by convention on port 4318",
        )
    elif url.path.rstrip("/").endswith(_ADDED):
        yield Problem(
            path="routing.tracing_endpoint",
            says=f"`{_ADDED}` is added to the address, and would be there twice",
            given=f"`tracing_endpoint: {endpoint}`",
            fix=f"leave `{_ADDED}` out",
        )
