"""DPD-NET-019 (recorded): an endpoint that GuardDuty owns blocks deleting the VPC."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-NET-019",
    subject=Subject.UNDECIDABLE,
    severity=Severity.WARNING,
    title="GuardDuty runtime monitoring adds an endpoint to the VPC",
    why="The endpoint belongs to no stack, so deleting the network stack stops at it; only the account shows it. "
    "Remove GuardDuty's endpoint and security group by hand before `cdk destroy`.",
    sources=("awslabs/awsome-distributed-ai PR 926",),
    facts=("P8",),
)
