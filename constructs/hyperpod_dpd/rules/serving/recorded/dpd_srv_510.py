"""DPD-SRV-510: the first token does not wait for the decoder."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-510",
    subject=Subject.DEFAULT,
    severity=Severity.WARNING,
    title="the prefiller's first token goes to the client before the decoder has answered",
    why="Copying out of and into the buffers and the decoder's first step cost some 80 ms for 4,096 tokens.",
    sources=("measured on one H200, 2026-11-30",),
    facts=("H10",),
)
