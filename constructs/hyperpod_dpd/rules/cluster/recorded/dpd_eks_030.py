"""DPD-EKS-030 (recorded): no cluster autoscaler."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-EKS-030",
    subject=Subject.NOT_EXPRESSIBLE,
    severity=Severity.ERROR,
    title="the Kubernetes cluster autoscaler does not manage HyperPod's nodes",
    why="HyperPod's provider ids are not EC2's, and the autoscaler stops at the first one; a deployment has no word "
    "for installing it.",
    sources=("kubernetes/autoscaler #7540 and PR 8195",),
    facts=("P17",),
)
