"""DPD-SRV-411: nothing is buffered while streaming."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-411",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="the router passes every chunk of a stream on as it comes",
    why="A router that collects the chunks turns the time to the first token into the time to the last. The "
    "router's tests hold a stream open and read its chunks one by one.",
    sources=("vllm-project/production-stack PR 777",),
    facts=("R11",),
)
