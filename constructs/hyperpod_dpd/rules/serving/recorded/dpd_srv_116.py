"""DPD-SRV-116: partial chunks are handed over."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-116",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="`discard_partial_chunks` is false on both roles",
    why="Otherwise the tail of every prompt is computed again, or nothing is hit at all.",
    sources=("LMCache examples/disagg_prefill", "LMCache/LMCache issue 1547 (p5en, 32K tokens: hit 0)"),
    facts=("L16",),
)
