"""The role that every node of the cluster runs with."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

MANAGED_POLICY = "AmazonSageMakerClusterInstanceRolePolicy"
"""What SageMaker documents as required: its logs, metrics, Systems Manager sessions and `sagemaker-` buckets."""


class ExecutionRole(Construct):
    """Role of the instance groups: SageMaker's own policy, the pod network, image pulls, Pod Identity, the scripts.

    Attributes:
        role: the role.
        policies: what must exist before a cluster uses the role; without it HyperPod says "Unable to retrieve subnets".
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster | eks.Cluster,
        scripts: s3.IBucket,
        subnet_ids: list[str],
        security_group_ids: list[str],
        volume_keys: Sequence[str] = (),
    ) -> None:
        """Create the role.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            cluster: EKS cluster whose pods may use Pod Identity on these nodes.
            scripts: bucket of the lifecycle scripts.
            subnet_ids: subnets in which the nodes' network interfaces live.
            security_group_ids: security groups of these interfaces.
            volume_keys: ARNs of the keys of the nodes' volumes.
        """
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        self.role = iam.Role(
            self,
            "Role",
            description="Nodes of the HyperPod cluster",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(MANAGED_POLICY)],
        )
        for statement in [
            *_network_interfaces(stack, subnet_ids, security_group_ids),
            *_images(stack),
            iam.PolicyStatement(
                sid="PodIdentity",
                actions=["eks-auth:AssumeRoleForPodIdentity"],
                resources=[cluster.cluster_arn],
            ),
            iam.PolicyStatement(sid="ListScripts", actions=["s3:ListBucket"], resources=[scripts.bucket_arn]),
            iam.PolicyStatement(
                sid="ReadScripts", actions=["s3:GetObject"], resources=[scripts.arn_for_objects("*")]
            ),
            *_volume_keys(stack, volume_keys),
        ]:
            self.role.add_to_policy(statement)
        self.policies = self.role.node.find_child("DefaultPolicy")


def _network_interfaces(
    stack: cdk.Stack, subnet_ids: list[str], security_group_ids: list[str]
) -> list[iam.PolicyStatement]:
    def arn(resource: str, name: str) -> str:
        return stack.format_arn(service="ec2", resource=resource, resource_name=name)

    # interfaces and instances get their ids while the cluster runs
    interfaces = arn("network-interface", "*")
    instances = arn("instance", "*")
    placed = [
        *(arn("subnet", subnet) for subnet in subnet_ids),
        *(arn("security-group", group) for group in security_group_ids),
    ]
    return [
        iam.PolicyStatement(
            sid="ManageInterfaces",
            actions=[
                "ec2:AssignPrivateIpAddresses",
                "ec2:AttachNetworkInterface",
                "ec2:CreateNetworkInterface",
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteNetworkInterfacePermission",
                "ec2:DetachNetworkInterface",
                "ec2:ModifyNetworkInterfaceAttribute",
                "ec2:UnassignPrivateIpAddresses",
            ],
            resources=[interfaces, instances, *placed],
        ),
        iam.PolicyStatement(sid="TagInterfaces", actions=["ec2:CreateTags"], resources=[interfaces]),
        # EC2 scopes no Describe call
        iam.PolicyStatement(
            sid="DescribeNetwork",
            actions=[
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeInstances",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeTags",
                "ec2:DescribeVpcs",
            ],
            resources=["*"],
        ),
    ]


def _volume_keys(stack: cdk.Stack, keys: Sequence[str]) -> list[iam.PolicyStatement]:
    """Return what HyperPod asks of the role before it encrypts volumes with a customer's keys."""
    if not keys:
        return []
    via_service = {"StringEquals": {"kms:ViaService": f"sagemaker.{stack.region}.amazonaws.com"}}
    resources = sorted(set(keys))
    return [
        iam.PolicyStatement(
            sid="LendVolumeKeys",
            actions=["kms:CreateGrant"],
            resources=resources,
            conditions={**via_service, "Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
        iam.PolicyStatement(
            sid="DescribeVolumeKeys",
            actions=["kms:DescribeKey"],
            resources=resources,
            conditions=via_service,
        ),
    ]


def _images(stack: cdk.Stack) -> list[iam.PolicyStatement]:
    return [
        # the token is the account's, not a repository's
        iam.PolicyStatement(sid="RegistryToken", actions=["ecr:GetAuthorizationToken"], resources=["*"]),
        # HyperPod's agent, EKS add-ons and AWS's engine images come from AWS's accounts, in this region
        iam.PolicyStatement(
            sid="PullImages",
            actions=["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            resources=[
                stack.format_arn(service="ecr", account="*", resource="repository", resource_name="*")
            ],
        ),
    ]
