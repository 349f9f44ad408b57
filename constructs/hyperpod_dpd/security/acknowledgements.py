"""Findings of cdk-nag's AwsSolutions pack that are right and accepted, each exactly and with its reason.

One table for all stacks. An entry names one finding of one construct; a test fails when a finding has no entry and
when an entry has no finding.
"""

from dataclasses import dataclass
from typing import Literal

import aws_cdk as cdk

Part = Literal["network", "cluster", "hyperpod"]

_PACK = "AwsSolutions"


@dataclass(frozen=True, slots=True, kw_only=True)
class NagAcknowledgement:
    """One accepted finding."""

    part: Part
    """Stack in which it is."""
    path: str
    """Construct path inside the stack."""
    finding: str
    """Finding as cdk-nag names it; `<region>` stands for the deployment's region."""
    reason: str

    def id(self, region: str) -> str:
        """Return the id by which the pack knows the finding in `region`."""
        return f"{_PACK}::{_PACK}-{self.finding.replace('<region>', region)}"


def acknowledge(stack: cdk.Stack, part: Part) -> None:
    """Accept in `stack` what the table lists for `part`.

    Raises:
        LookupError: an entry names a construct that the stack does not have.
    """
    for entry in ACKNOWLEDGEMENTS:
        if entry.part != part:
            continue
        node = stack.node
        for name in entry.path.split("/"):
            child = node.try_find_child(name)
            if child is None:
                raise LookupError(
                    f"no construct `{entry.path}` in stack `{stack.stack_name}` for `{entry.finding}`"
                )
            node = child.node
            found = child
        cdk.Validations.of(found).acknowledge(
            cdk.Acknowledgment(id=entry.id(stack.region), reason=entry.reason)
        )


ACKNOWLEDGEMENTS: tuple[NagAcknowledgement, ...] = (
    NagAcknowledgement(
        part="network",
        path="AWS679f53fac002430cb0da5b7982bd2287/ServiceRole/Resource",
        finding="IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]",
        reason="CDK's own function for AWS API calls; the policy lets it write its log and nothing else",
    ),
    NagAcknowledgement(
        part="cluster",
        path="Cluster/Eks/Role/Resource",
        finding="IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/AmazonEKSClusterPolicy]",
        reason="EKS requires this policy on the control plane's role and extends it with its features",
    ),
    NagAcknowledgement(
        part="cluster",
        path="Cluster/SystemNodes/Role/Resource",
        finding="IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/AmazonEKSWorkerNodePolicy]",
        reason="EKS requires this policy on the role of managed nodes",
    ),
    NagAcknowledgement(
        part="cluster",
        path="Cluster/SystemNodes/Role/Resource",
        finding="IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/AmazonEKS_CNI_Policy]",
        reason="the CNI runs before Pod Identity can, hence with the node's role",
    ),
    NagAcknowledgement(
        part="cluster",
        path="Cluster/SystemNodes/Role/Resource",
        finding="IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly]",
        reason="nodes pull EKS's own images, whose registry accounts differ between regions; pull only",
    ),
    NagAcknowledgement(
        part="cluster",
        path="Cluster/SystemNodes/Role/Resource",
        finding="IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/AmazonSSMManagedInstanceCore]",
        reason="Session Manager instead of SSH; AWS extends the policy with the agent",
    ),
)
