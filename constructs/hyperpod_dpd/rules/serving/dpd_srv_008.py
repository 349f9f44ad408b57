"""DPD-SRV-008: the deployment is one for which disaggregation was shown to pay."""

from collections.abc import Iterator

from hyperpod_dpd.derive import ServingFacts, resolve_or_none
from hyperpod_dpd.physics import parameters
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import self_managed
from hyperpod_dpd.spec import Deployment

SMALLEST_VALIDATED_PARAMETERS = 70e9
LARGEST_VALIDATED_CONCURRENCY = 64
ESTIMATE_ERROR = 0.25
"""Characters divided by four are off by this much and more for code, JSON and scripts other than Latin."""


@deployment_rule(
    "DPD-SRV-008",
    severity=Severity.WARNING,
    title="model, concurrency and prompts are within what was validated in public",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (dense, 70B and more, 64 concurrent)",),
)
def within_what_was_validated(deployment: Deployment) -> Iterator[Problem]:
    """Small models prefill fast enough beside decoding, and a prompt at the threshold goes either way by chance."""
    facts = resolve_or_none(deployment)
    if facts is not None:
        yield from _model(facts)
    yield from _traffic(deployment)


def _model(facts: ServingFacts) -> Iterator[Problem]:
    geometry = facts.geometry
    total = parameters(geometry).stored
    # "70B" models have a little more or less than that
    if geometry.dense and total >= 0.95 * SMALLEST_VALIDATED_PARAMETERS:
        return
    kind = "dense" if geometry.dense else "a mixture of experts"
    yield Problem(
        path="model.name",
        says="disaggregation was validated for dense models of 70 billion parameters and more",
        given=f"`name: {geometry.name}`",
        computed=f"{total / 1e9:.1f} billion parameters, {kind}",
        fix="compare with `dpd plan` before you pay for it, and acknowledge the warning",
    )


def _traffic(deployment: Deployment) -> Iterator[Problem]:
    traffic, routing = deployment.traffic, deployment.routing
    if traffic.concurrency is not None and traffic.concurrency > LARGEST_VALIDATED_CONCURRENCY:
        yield Problem(
            path="traffic.concurrency",
            says="more requests in flight than were validated",
            given=f"`concurrency: {traffic.concurrency}`",
            limit=str(LARGEST_VALIDATED_CONCURRENCY),
            fix="measure with the benchmark job, and acknowledge the warning",
        )
    # the operator's router always counts characters
    estimates = routing.estimator == "characters" or not self_managed(deployment)
    if estimates and isinstance(routing.threshold_tokens, int):
        off = ESTIMATE_ERROR * routing.threshold_tokens
        if abs(traffic.input_tokens - routing.threshold_tokens) <= off:
            yield Problem(
                path="routing.estimator",
                says="typical prompts lie at the threshold, where an estimate decides by chance",
                given=f"`input_tokens: {traffic.input_tokens}`, `threshold_tokens: {routing.threshold_tokens}`",
                limit=f"characters divided by 4 are off by {ESTIMATE_ERROR:.0%} and more",
                fix="move the threshold away, or set `estimator: tokens` on `backend: self-managed`",
            )
