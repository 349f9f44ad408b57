"""DPD-SRV-508: room is reserved for whole prompts."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-508",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="the router reserves the chunks of the whole prompt, on every rank, before it begins a prefill",
    why="Prompts that each hold half of what they need block one another for ever.",
    sources=("LMCache/LMCache issue 1215",),
    facts=("H8",),
)
