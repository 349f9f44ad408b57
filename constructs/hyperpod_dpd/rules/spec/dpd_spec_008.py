"""DPD-SPEC-008: an SLO lies where its histogram can tell requests apart."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.histograms import ROUTER_TTFT_BUCKETS, TPOT_BUCKETS, WORKER_TTFT_BUCKETS
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SPEC-008",
    severity=Severity.ERROR,
    title="an SLO lies between the first and the last bucket of its histogram",
    sources=(
        "vLLM 0.25.1, v1/metrics/loggers.py: time_to_first_token_seconds",
        "vLLM 0.25.1, v1/metrics/loggers.py: request_time_per_output_token_seconds",
    ),
)
def slo_can_be_measured(deployment: Deployment) -> Iterator[Problem]:
    """Outside of the buckets no query knows how many requests missed the limit, and no alert could fire."""
    routed = deployment.serving.backend == "self-managed"
    for name, buckets in (
        ("ttft_p95_seconds", ROUTER_TTFT_BUCKETS if routed else WORKER_TTFT_BUCKETS),
        ("tpot_p95_seconds", TPOT_BUCKETS),
    ):
        given, first, last = getattr(deployment.slo, name), buckets[0], buckets[-1]
        if not first <= given <= last:
            yield Problem(
                path=f"slo.{name}",
                says="the histogram cannot tell who missed the SLO",
                given=f"`{name}: {given:g}`",
                limit=f"{first:g} to {last:g} seconds, the first and the last bucket",
                fix=f"choose an SLO from {first:g} to {last:g} seconds",
            )
