"""DPD-SRV-109: both roles run the same LMCache in the same mode."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-109",
    subject=Subject.NOT_EXPRESSIBLE,
    severity=Severity.ERROR,
    title="LMCache version, backend mode and image are equal on both roles",
    why="Asynchronous receivers refuse older senders, and the sockets of the two modes speak different protocols. "
    "`serving.engine` is one value for both roles.",
    sources=("LMCache/LMCache issue 2510", "LMCache 0.5.3 source (`total_chunks` of legacy senders)"),
    facts=("L9",),
)
