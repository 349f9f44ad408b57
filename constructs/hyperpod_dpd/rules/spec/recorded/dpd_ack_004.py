"""DPD-ACK-004: a warning is acknowledged once."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-ACK-004",
    subject=Subject.ACKNOWLEDGEMENTS,
    severity=Severity.ERROR,
    title="a warning is acknowledged once",
    why="Two reasons for one warning: one of them is out of date, and nobody knows which.",
    sources=("this project: warnings are acknowledged in the deployment file",),
)
