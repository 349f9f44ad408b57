"""DPD-ACK-003: errors are mended, not acknowledged."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-ACK-003",
    subject=Subject.ACKNOWLEDGEMENTS,
    severity=Severity.ERROR,
    title="no error is acknowledged",
    why="An error says that the deployment cannot work, or silently does something else; nobody can accept that.",
    sources=("this project: warnings are acknowledged in the deployment file",),
)
