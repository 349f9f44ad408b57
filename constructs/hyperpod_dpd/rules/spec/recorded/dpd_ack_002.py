"""DPD-ACK-002: acknowledgements belong to warnings that exist."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-ACK-002",
    subject=Subject.ACKNOWLEDGEMENTS,
    severity=Severity.ERROR,
    title="an acknowledgement belongs to a warning of this deployment",
    why="One that stays behind would silence the warning when it comes back for another reason.",
    sources=("this project: warnings are acknowledged in the deployment file",),
)
