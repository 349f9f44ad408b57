"""DPD-SRV-310: the EFA device plugin runs on that instance type."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-310",
    subject=Subject.UNDECIDABLE,
    severity=Severity.WARNING,
    title="the EFA device plugin's node affinity has the instance type",
    why="The list is inside the dependencies chart as it is installed. Node readiness waits for the allocatable "
    "`vpc.amazonaws.com/efa` of every node, and says when it is 0.",
    sources=("aws-samples/aws-do-eks PR 56 (p5en missing)",),
    facts=("E10",),
)
