"""DPD-SRV-505: a fallback reads nothing unwritten."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-505",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="after a notification timeout the prompt is decoded under another tag",
    why="The decoder may have registered keys that nobody has written yet.",
    sources=("LMCache 0.5.3 source (keys are registered at allocation)",),
    facts=("H5",),
)
