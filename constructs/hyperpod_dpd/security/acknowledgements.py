"""Findings of cdk-nag's AwsSolutions pack that are right and accepted, each exactly and with its reason.

One table for all stacks. An entry names one finding of one construct; a test fails when a finding has no entry and
when an entry has no finding.
"""

from dataclasses import dataclass
from typing import Literal

import aws_cdk as cdk
from constructs import IConstruct

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
    """Finding as cdk-nag names it; `<region>` stands for the region, `<account>` for the account."""
    reason: str

    def id(self, stack: cdk.Stack) -> str:
        """Return the id by which the pack knows the finding in `stack`."""
        account = "<AWS::AccountId>" if cdk.Token.is_unresolved(stack.account) else stack.account
        finding = self.finding.replace("<region>", stack.region).replace("<account>", account)
        return f"{_PACK}::{_PACK}-{finding}"


def acknowledge(stack: cdk.Stack, part: Part) -> None:
    """Accept in `stack` what the table lists for `part`.

    Raises:
        LookupError: an entry names a construct that the stack does not have.
    """
    by_path: dict[str, list[cdk.Acknowledgment]] = {}
    for entry in ACKNOWLEDGEMENTS:
        if entry.part == part:
            accepted = cdk.Acknowledgment(id=entry.id(stack), reason=entry.reason)
            by_path.setdefault(entry.path, []).append(accepted)
    for path, accepted_here in by_path.items():
        cdk.Validations.of(_find(stack, path)).acknowledge(*accepted_here)


def _find(stack: cdk.Stack, path: str) -> IConstruct:
    found: IConstruct = stack
    for name in path.split("/"):
        child = found.node.try_find_child(name)
        if child is None:
            raise LookupError(
                f"no construct `{path}` in stack `{stack.stack_name}`: its acknowledgement is out of date"
            )
        found = child
    return found


_UPLOAD = "Custom::CDKBucketDeployment8693BB64968944B69AAFB0CC9EB8756C"
_UPLOAD_POLICY = f"{_UPLOAD}/ServiceRole/DefaultPolicy/Resource"
_UPLOAD_REASON = (
    "aws-cdk-lib's own upload function: it reads the deployment's assets and writes the lifecycle bucket, both named; "
    "the wildcards are its grants of several S3 actions and of the objects inside"
)
_BUILD_POLICY = "DependenciesChart/Build/Role/DefaultPolicy/Resource"
_NODE_POLICY = "HyperPod/ExecutionRole/Role/DefaultPolicy/Resource"
_SCRIPTS = "<LifecycleScriptsBucket65CD030F.Arn>/*"
_EC2 = "arn:aws:ec2:<region>:<account>"


def _hyperpod(path: str, finding: str, reason: str) -> NagAcknowledgement:
    return NagAcknowledgement(part="hyperpod", path=path, finding=finding, reason=reason)


def _managed(policy: str) -> str:
    return f"IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{policy}]"


ACKNOWLEDGEMENTS: tuple[NagAcknowledgement, ...] = (
    NagAcknowledgement(
        part="network",
        path="AWS679f53fac002430cb0da5b7982bd2287/ServiceRole/Resource",
        finding=_managed("service-role/AWSLambdaBasicExecutionRole"),
        reason="aws-cdk-lib's own function behind AwsCustomResource writes its log with Lambda's standard policy",
    ),
    NagAcknowledgement(
        part="cluster",
        path="Cluster/Eks/Role/Resource",
        finding=_managed("AmazonEKSClusterPolicy"),
        reason="EKS documents this policy as required for the control plane and extends it with the service",
    ),
    *(
        NagAcknowledgement(
            part="cluster", path="Cluster/SystemNodes/Role/Resource", finding=_managed(policy), reason=reason
        )
        for policy, reason in {
            "AmazonEKSWorkerNodePolicy": "EKS documents this policy as required for managed nodes",
            "AmazonEKS_CNI_Policy": "the pod network of the system nodes; EKS extends the policy with the add-on",
            "AmazonEC2ContainerRegistryPullOnly": "the smallest policy that EKS documents for pulling images",
            "AmazonSSMManagedInstanceCore": "sessions through Systems Manager instead of SSH keys and open ports",
        }.items()
    ),
    _hyperpod(
        f"{_UPLOAD}/ServiceRole/Resource",
        _managed("service-role/AWSLambdaBasicExecutionRole"),
        "aws-cdk-lib's own upload function writes its log with Lambda's standard policy",
    ),
    *(
        _hyperpod(_UPLOAD_POLICY, f"IAM5[{what}]", _UPLOAD_REASON)
        for what in (
            "Action::s3:Abort*",
            "Action::s3:DeleteObject*",
            "Action::s3:GetBucket*",
            "Action::s3:GetObject*",
            "Action::s3:List*",
            f"Resource::{_SCRIPTS}",
            "Resource::arn:aws:s3:::cdk-hnb659fds-assets-<account>-<region>/*",
        )
    ),
    _hyperpod(f"{_UPLOAD}/Resource", "L1", "aws-cdk-lib chooses the runtime of its own upload function"),
    _hyperpod(
        "DependenciesChart/Build/Project",
        "CB4",
        "the build has no artifacts and no cache, so there is nothing that a key would encrypt; its log group has one",
    ),
    _hyperpod(
        _BUILD_POLICY,
        "IAM5[Resource::*]",
        "CodeBuild describes the VPC that it builds in, and EC2 scopes no Describe call",
    ),
    _hyperpod(
        _BUILD_POLICY,
        f"IAM5[Resource::{_EC2}:network-interface/*]",
        "the build's interfaces get their ids when they are made; subnets and security group are named, and the "
        "permission is for CodeBuild in these subnets only",
    ),
    _hyperpod(
        "HyperPod/ExecutionRole/Role/Resource",
        _managed("AmazonSageMakerClusterInstanceRolePolicy"),
        "SageMaker documents this policy as required for HyperPod nodes and extends it with the service",
    ),
    _hyperpod(
        _NODE_POLICY,
        "IAM5[Resource::*]",
        "EC2 scopes no Describe call, and a registry token belongs to the account, not to a repository",
    ),
    _hyperpod(
        _NODE_POLICY,
        f"IAM5[Resource::{_EC2}:instance/*]",
        "the pod network attaches interfaces to instances whose ids exist only once HyperPod has launched them",
    ),
    _hyperpod(
        _NODE_POLICY,
        f"IAM5[Resource::{_EC2}:network-interface/*]",
        "the pod network makes interfaces while pods come and go; subnet and security group are named",
    ),
    _hyperpod(
        _NODE_POLICY,
        "IAM5[Resource::arn:aws:ecr:<region>:*:repository/*]",
        "read-only pulls, in this region: HyperPod's agent, EKS add-ons and engine images live in several AWS accounts",
    ),
    _hyperpod(
        _NODE_POLICY,
        f"IAM5[Resource::{_SCRIPTS}]",
        "nodes read every file of the lifecycle bucket, which holds nothing but lifecycle scripts",
    ),
)
"""Every accepted finding."""
