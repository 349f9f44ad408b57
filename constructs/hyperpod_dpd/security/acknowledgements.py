"""Findings of cdk-nag's AwsSolutions pack that are right and accepted, each exactly and with its reason.

One table for all stacks. An entry names one finding of one construct; a test fails when a finding has no entry and
when an entry has no finding.
"""

import aws_cdk as cdk
from constructs import IConstruct

from hyperpod_dpd.security.acknowledged_platform import PLATFORM
from hyperpod_dpd.security.acknowledgement import NagAcknowledgement, Part
from hyperpod_dpd.spec import Deployment

__all__ = ["ACKNOWLEDGEMENTS", "NagAcknowledgement", "Part", "acknowledge"]


def acknowledge(stack: cdk.Stack, part: Part, deployment: Deployment) -> None:
    """Accept in `stack` of `deployment` what the table lists for `part`.

    Raises:
        LookupError: an entry names a construct that every deployment has, and the stack does not.
    """
    by_path: dict[str, list[NagAcknowledgement]] = {}
    for entry in ACKNOWLEDGEMENTS:
        if entry.part == part:
            by_path.setdefault(entry.path, []).append(entry)
    for path, entries in by_path.items():
        construct = _find(stack, path, optional=all(entry.optional for entry in entries))
        if construct is not None:
            accepted = [
                cdk.Acknowledgment(id=entry.id(stack, deployment), reason=entry.reason) for entry in entries
            ]
            cdk.Validations.of(construct).acknowledge(*accepted)


def _find(stack: cdk.Stack, path: str, *, optional: bool) -> IConstruct | None:
    found: IConstruct = stack
    for name in path.split("/"):
        child = found.node.try_find_child(name)
        if child is None and optional:
            return None
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
        # a VPC of somebody else keeps its default security group
        optional=True,
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
            "Resource::arn:aws:s3:::cdk-<qualifier>-assets-<account>-<region>/*",
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
    *PLATFORM,
)
"""Every accepted finding."""
