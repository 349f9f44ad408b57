"""DPD-ACK-001: acknowledgements name rules that exist."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-ACK-001",
    subject=Subject.ACKNOWLEDGEMENTS,
    severity=Severity.ERROR,
    title="an acknowledgement names a rule that exists",
    why="A misspelt id acknowledges nothing, and whoever reads the file believes that it does.",
    sources=("this project: warnings are acknowledged in the deployment file",),
)
