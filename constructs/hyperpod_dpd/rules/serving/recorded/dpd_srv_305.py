"""DPD-SRV-305: prefill and decode are on different nodes."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-305",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="a prefill and a decode worker never share a node",
    why="EFA has no loopback within a host: transfers end in EAGAIN. Required anti-affinity keeps the roles apart.",
    sources=("ai-dynamo/dynamo PR 7764",),
    facts=("E5",),
)
