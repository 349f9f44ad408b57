"""DPD-SRV-203: no Service injects variables that vLLM reads."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-203",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="`enableServiceLinks` is false in every worker",
    why="A Service called `vllm` gives every pod `VLLM_PORT=tcp://…`, which vLLM reads as its port and crashes.",
    sources=("vllm-project/vllm issue 34199, PR 18209",),
    facts=("V3",),
)
