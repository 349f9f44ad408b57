"""DPD-SRV-409: llm-d's sidecar."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-409",
    subject=Subject.NOT_EXPRESSIBLE,
    severity=Severity.ERROR,
    title="llm-d's sidecar is not asked for the `lmcache` connector",
    why="The connector was removed from it. This project renders no foreign router.",
    sources=("llm-d/llm-d-router v0.10.0",),
    facts=("R8",),
)
