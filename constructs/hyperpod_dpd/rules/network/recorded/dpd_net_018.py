"""DPD-NET-018 (recorded): EFA health checks that fail leave no log."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-NET-018",
    subject=Subject.UNDECIDABLE,
    severity=Severity.ERROR,
    title="an empty lifecycle log group means that EFA, GPU or network failed before the script",
    why="The EFA health check runs before the lifecycle script, so its failure is in the cluster's events only; "
    "the readiness wait reports the text of those events.",
    sources=("awslabs/awsome-distributed-ai #189",),
    facts=("P3",),
)
