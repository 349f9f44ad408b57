"""DPD-SRV-412: prefill makes one token."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-412",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="a prefill request has `max_tokens: 1`, `max_completion_tokens: 1` where the endpoint knows it, and "
    "`stream: false`",
    why="Otherwise the prefiller generates the whole answer. The router's tests read the requests that the "
    "prefiller got.",
    sources=("vllm-project/production-stack PR 777",),
    facts=("R12",),
)
