"""Nodes for controllers, so that DNS, webhooks and operators run while no GPU node exists."""

from typing import cast

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from hyperpod_dpd.network import ClusterNetwork
from hyperpod_dpd.spec import SystemNodes

SYSTEM_NODE_LABELS = {"hyperpod-dpd/nodes": "system"}
"""Labels of the system nodes, for node selectors. Prefixes of kubernetes.io are reserved."""

_ROOT_DEVICE = "/dev/xvda"
_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    # sessions instead of SSH
    "AmazonSSMManagedInstanceCore",
)


class SystemNodeGroup(Construct):
    """A managed node group of amd64 nodes without SSH, with encrypted volumes and IMDSv2 that pods cannot reach.

    Attributes:
        group: the node group, to depend on.
        role: role of its nodes.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: SystemNodes,
        cluster: eks.Cluster,
        network: ClusterNetwork,
    ) -> None:
        """Create the node group.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            spec: type, number and volume of the nodes.
            cluster: the cluster that they join.
            network: their subnets.

        Raises:
            ValueError: the instance type is not amd64.
        """
        super().__init__(scope, construct_id)
        instance_type = ec2.InstanceType(spec.instance_type)
        if instance_type.architecture is not ec2.InstanceArchitecture.X86_64:
            raise ValueError(
                f"system nodes are not amd64: given `instance_type: {spec.instance_type}`; the HyperPod inference "
                "operator has images for amd64 only. help: choose an x86 type such as `m6i.xlarge`"
            )
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(policy) for policy in _POLICIES],
        )
        template = ec2.LaunchTemplate(
            self,
            "Template",
            http_endpoint=True,
            require_imdsv2=True,
            # one hop ends on the node: a pod without the host's network cannot take the node's credentials
            http_put_response_hop_limit=1,
            block_devices=[
                ec2.BlockDevice(
                    device_name=_ROOT_DEVICE,
                    volume=ec2.BlockDeviceVolume.ebs(
                        spec.volume_gib, encrypted=True, volume_type=ec2.EbsDeviceVolumeType.GP3
                    ),
                )
            ],
        )
        self.group = eks.Nodegroup(
            self,
            "Group",
            cluster=cast("eks.ICluster", cluster),
            node_role=self.role,
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
            instance_types=[instance_type],
            launch_template_spec=eks.LaunchTemplateSpec(
                id=cast("str", template.launch_template_id), version=template.latest_version_number
            ),
            min_size=spec.count,
            desired_size=spec.count,
            max_size=spec.maximum,
            max_unavailable=1,
            # an update that waits for disruption budgets, instead of one that breaks them
            force_update=False,
            labels=SYSTEM_NODE_LABELS,
            subnets=ec2.SubnetSelection(subnets=list(network.system_subnets)),
        )
