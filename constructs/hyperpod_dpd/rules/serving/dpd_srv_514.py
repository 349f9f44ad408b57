"""DPD-SRV-514: the prefiller's prefix cache was not measured beside LMCache PD."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import hands_over_through_lmcache
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-514",
    severity=Severity.WARNING,
    title="prefix caching on prefillers is off with transfer `lmcache-pd`",
    sources=("LMCache examples/disagg_prefill (`--no-enable-prefix-caching` on the prefiller)",),
)
def prefillers_compute_every_prompt(deployment: Deployment) -> Iterator[Problem]:
    """Everything that is handed over passes the connector; what it does with blocks that vLLM skipped is not measured."""
    if hands_over_through_lmcache(deployment) and deployment.serving.prefill.prefix_caching:
        yield Problem(
            path="serving.prefill.prefix_caching",
            says="the hand-off was proven without the prefiller's prefix cache only",
            given="`prefix_caching: true`",
            fix="remove it, or acknowledge the warning after the proof job has passed with repeated prefixes",
        )
