"""DPD-SRV-114: no prompt reaches a prefiller except through the router."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-114",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="probes ask `/health` only, and prefillers are behind no public Service",
    why="A prompt without `disagg_spec` raises inside the worker of a sender: every probe, warm-up or stray client "
    "would break it.",
    sources=("LMCache/LMCache issue 1084",),
    facts=("L14",),
)
