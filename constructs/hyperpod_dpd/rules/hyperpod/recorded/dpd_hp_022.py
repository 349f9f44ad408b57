"""DPD-HP-022 (recorded): an unmet minimum is reset without a word."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-HP-022",
    subject=Subject.UNDECIDABLE,
    severity=Severity.WARNING,
    title="nodes exist when the stack says so",
    why="With continuous provisioning the stack is green with zero nodes, and a minimum that is not met within three "
    "hours is rolled back to zero while the cluster stays InService; the readiness wait looks at the nodes.",
    sources=("SageMaker DG sagemaker-hyperpod-scaling-eks", "awslabs/awsome-distributed-ai PR 926"),
    facts=("P8",),
)
