"""DPD-SRV-502: every hand-off is consumed."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-502",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="the router consumes or drains every hand-off that it began, whatever happens to the client",
    why="An abandoned hand-off keeps its chunks until the decoder restarts: five prompts of 4,096 tokens filled a "
    "buffer of 1 GiB, and nothing was handed over any more.",
    sources=("measured on one H200, 2026-11-30 (`abandon.py`)",),
    facts=("H2",),
)
