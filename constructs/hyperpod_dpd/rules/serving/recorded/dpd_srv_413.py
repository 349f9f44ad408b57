"""DPD-SRV-413: nothing is handed over that has no block."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-413",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="a prompt shorter than one block is decoded directly",
    why="There would be nothing to transfer, and the router would wait for it.",
    sources=("llm-d/llm-d-router issue 867",),
    facts=("R13",),
)
