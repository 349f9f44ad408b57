"""DPD-SRV-010: both roles have workers."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-010",
    severity=Severity.WARNING,
    title="there is a decoder, and a prefiller where prompts are disaggregated",
    sources=("router of this project: without a decoder every request is answered 503",),
)
def both_roles_have_workers(deployment: Deployment) -> Iterator[Problem]:
    """Without decoders nothing is answered; without prefillers every prompt is decoded directly, at a decoder's price."""
    serving, threshold = deployment.serving, deployment.routing.threshold_tokens
    if serving.decode.replicas == 0:
        yield Problem(
            path="serving.decode.replicas",
            says="nobody answers",
            given="`replicas: 0`",
            fix="set `serving.decode.replicas: 1`, or acknowledge the warning while the endpoint is off",
        )
    if serving.prefill.replicas == 0 and threshold != "never":
        yield Problem(
            path="serving.prefill.replicas",
            says="nothing can be disaggregated",
            given=f"`replicas: 0`, `threshold_tokens: {threshold}`",
            fix="set `serving.prefill.replicas: 1`, or `routing.threshold_tokens: never`",
        )
