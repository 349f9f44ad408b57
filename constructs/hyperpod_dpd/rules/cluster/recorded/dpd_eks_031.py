"""DPD-EKS-031 (recorded): known faults of CDK's EKS modules are behind the pinned version."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-EKS-031",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="EKS comes from `aws_eks_v2` of a release later than May 2026, on Node 24",
    why="Earlier releases raced between a chart asset and its read policy, failed on OCI charts with Helm 4, and the "
    "v1 module's rollback cannot delete its cluster; jsii warns on Node 20. The requirements pin later releases.",
    sources=("aws/aws-cdk #19880, PR 37731, #37143, #32395",),
    facts=("P20", "P21", "P22", "P32"),
)
