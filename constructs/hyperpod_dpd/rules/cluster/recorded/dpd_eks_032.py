"""DPD-EKS-032 (recorded): the first chart installation has everything it needs."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-EKS-032",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="charts are installed by an installer that this project owns, with explicit dependencies",
    why="A first `helm upgrade --install` fails where CRDs or nodes are missing, and AWS's Lambda installer broke on "
    "TLS and drifted between two copies; ours is a build with pinned digests that surfaces Helm's own text.",
    sources=("aws/eks-charts #529", "aws/aws-cdk #12030", "awslabs/awsome-distributed-ai #1205"),
    facts=("P7", "P23"),
)
