"""DPD-SRV-403: production-stack's disaggregated routing."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-403",
    subject=Subject.NOT_EXPRESSIBLE,
    severity=Severity.ERROR,
    title="production-stack `disaggregated_prefill` has exactly one prefiller and one decoder",
    why="It always uses the first pair, so that further pods stay idle. This project renders no foreign router.",
    sources=("vllm-project/production-stack, run with two prefillers and two decoders",),
    facts=("R3",),
)
