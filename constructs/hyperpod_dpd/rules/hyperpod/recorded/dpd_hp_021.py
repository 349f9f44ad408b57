"""DPD-HP-021 (recorded): capacity is there."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-HP-021",
    subject=Subject.UNDECIDABLE,
    severity=Severity.ERROR,
    title="the zone offers the instance type and has capacity",
    why="Offerings change and capacity is never promised: the account's preflight asks for both by zone id, and the "
    "readiness wait ends with the cluster's own event text.",
    sources=("awslabs/awsome-distributed-ai #204",),
    facts=("P1",),
)
