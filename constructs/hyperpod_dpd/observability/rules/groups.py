"""All rules of one deployment."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.histograms import ROUTER_TTFT_BUCKETS, TPOT_BUCKETS, WORKER_TTFT_BUCKETS
from hyperpod_dpd.derive import ServingFacts, resolve
from hyperpod_dpd.observability.rules.alerts import (
    decision_alerts,
    fabric_alerts,
    gpu_alerts,
    hand_off_alerts,
    has_router,
    latency_alerts,
    presence_alerts,
    pressure_alerts,
)
from hyperpod_dpd.observability.rules.promql import Scope, role
from hyperpod_dpd.observability.rules.rule import Group, Recording
from hyperpod_dpd.observability.rules.slo import Objective, burn_alerts, recordings
from hyperpod_dpd.spec import Deployment

FAST = "30s"
"""Interval of alerts, which is that of scraping."""

SLOW = "1m"
"""Interval of rules over hours and days."""


def rule_groups(deployment: Deployment, *, disaggregates: bool = True) -> tuple[Group, ...]:
    """Return the rules of `deployment`.

    Args:
        deployment: the deployment; its SLOs, replicas and threshold are in the rules.
        disaggregates: False for a baseline, which hands nothing off.

    Raises:
        UnresolvedError: something that the deployment names does not exist or does not go together.
        LimitOutsideBucketsError: an SLO is beyond the last bucket of its histogram.
    """
    facts = resolve(deployment)
    scope = Scope(deployment=deployment.name)
    objectives = slo_objectives(deployment)
    return (
        Group(name="dpd-recordings", interval=FAST, rules=tuple(_recordings(scope))),
        Group(
            name="dpd-slo",
            interval=SLOW,
            rules=(
                *(rule for objective in objectives for rule in recordings(scope, objective)),
                *(rule for objective in objectives for rule in burn_alerts(scope, objective)),
            ),
        ),
        Group(
            name="dpd-workers",
            interval=FAST,
            rules=(
                *presence_alerts(scope, deployment, facts, disaggregates=disaggregates),
                *latency_alerts(scope, deployment),
                *pressure_alerts(scope, facts, disaggregates=disaggregates),
            ),
        ),
        *(_hand_off_groups(scope, deployment, facts) if disaggregates else ()),
        *_gpu_groups(scope, deployment),
    )


def _hand_off_groups(scope: Scope, deployment: Deployment, facts: ServingFacts) -> Iterator[Group]:
    alerts = (*hand_off_alerts(scope, deployment), *decision_alerts(scope, deployment))
    yield Group(name="dpd-hand-off", interval=FAST, rules=alerts)
    if deployment.platform.exporters != "none":
        yield Group(name="dpd-fabric", interval=FAST, rules=tuple(fabric_alerts(scope, deployment, facts)))


def _gpu_groups(scope: Scope, deployment: Deployment) -> Iterator[Group]:
    if deployment.platform.exporters != "none":
        yield Group(name="dpd-gpu", interval=FAST, rules=tuple(gpu_alerts(scope, deployment)))


def slo_objectives(deployment: Deployment) -> tuple[Objective, Objective]:
    """Return what is promised for the first and for each further token.

    The first token is timed where the client is nearest: at the router, or on the operator, whose router cannot be
    read, at the workers that prefill.
    """
    slo = deployment.slo
    at_router = has_router(deployment)
    return (
        Objective(
            name="ttft",
            title="Ttft",
            meaning="to the first token",
            limit_seconds=slo.ttft_p95_seconds,
            metric="dpd_router_ttft_seconds" if at_router else "vllm:time_to_first_token_seconds",
            matchers=() if at_router else (role("prefill", "colocated"),),
            buckets=ROUTER_TTFT_BUCKETS if at_router else WORKER_TTFT_BUCKETS,
        ),
        Objective(
            name="tpot",
            title="Tpot",
            meaning="per output token",
            limit_seconds=slo.tpot_p95_seconds,
            metric="vllm:request_time_per_output_token_seconds",
            matchers=(role("decode", "colocated"),),
            buckets=TPOT_BUCKETS,
        ),
    )


def _recordings(scope: Scope) -> tuple[Recording, ...]:
    """Return what dashboards and alerts share."""
    decided = scope.rate("dpd_router_decisions_total")
    return (
        Recording(
            name="dpd:ttft_seconds:p95", expression=scope.quantile(0.95, "vllm:time_to_first_token_seconds")
        ),
        Recording(
            name="dpd:itl_seconds:p95", expression=scope.quantile(0.95, "vllm:inter_token_latency_seconds")
        ),
        Recording(
            name="dpd:requests_waiting:sum",
            expression=f"sum by (role) ({scope.series('vllm:num_requests_waiting')})",
        ),
        Recording(
            name="dpd:requests_running:sum",
            expression=f"sum by (role) ({scope.series('vllm:num_requests_running')})",
        ),
        Recording(name="dpd:decisions:rate5m", expression=f"sum by (decision) ({decided})"),
        Recording(
            name="dpd:generation_tokens:rate5m",
            expression=f"sum by (role) ({scope.rate('vllm:generation_tokens_total')})",
        ),
        Recording(
            name="dpd:handoff_hits:rate5m",
            expression=f"sum by (result) ({scope.rate('dpd_router_handoff_hits_total')})",
        ),
    )
