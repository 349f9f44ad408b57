"""A cluster that another deployment or another team owns."""

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from aws_cdk import aws_ssm as ssm
from aws_cdk import custom_resources as cr
from constructs import Construct

from hyperpod_dpd.cluster.handle import ClusterHandle
from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.spec import ExistingCluster as ExistingClusterSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    vpc_id: str
    subnet_ids: tuple[str, ...]
    security_group_id: str
    gpu_subnet_id: str | None
    gpu_security_group_id: str | None
    hyperpod_arn: str


class ExistingCluster(Construct):
    """Finds a cluster when the stack is deployed: by what its owner published, else by asking EKS for its name.

    Nothing of the cluster is created or changed here.

    Attributes:
        handle: the cluster.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: ExistingClusterSpec,
        log_group: logs.ILogGroup,
        places_beside_gpus: bool = False,
    ) -> None:
        """Find the cluster.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            spec: its names, and the SSM path below which its owner publishes outputs, if he does.
            log_group: log of the look-up by name.
            places_beside_gpus: whether something is put into the subnet of the GPU nodes, which is then looked up too.
        """
        super().__init__(scope, construct_id)
        self._places_beside_gpus = places_beside_gpus
        # nothing here asks for routes
        cdk.Annotations.of(self).acknowledge_warning(
            "@aws-cdk/aws-ec2:noSubnetRouteTableId", "routes belong to the cluster's owner"
        )
        found = (
            self._published(spec.parameter_prefix.rstrip("/"))
            if spec.parameter_prefix
            else self._described(spec, log_group)
        )
        self.handle = ClusterHandle(
            eks_name=spec.eks_name,
            eks_arn=cdk.Stack.of(self).format_arn(
                service="eks", resource="cluster", resource_name=spec.eks_name
            ),
            security_group_id=found.security_group_id,
            vpc=ec2.Vpc.from_vpc_attributes(
                self,
                "Vpc",
                vpc_id=found.vpc_id,
                # asked for by CDK, used by nothing here
                availability_zones=[f"zone-{number}" for number, _ in enumerate(found.subnet_ids)],
                isolated_subnet_ids=list(found.subnet_ids),
            ),
            subnets=[
                ec2.Subnet.from_subnet_id(self, f"Subnet{number}", subnet_id)
                for number, subnet_id in enumerate(found.subnet_ids)
            ],
            gpu_subnet_id=found.gpu_subnet_id,
            gpu_security_group_id=found.gpu_security_group_id,
            hyperpod_name=spec.hyperpod_name,
            hyperpod_arn=found.hyperpod_arn,
        )

    def _published(self, prefix: str) -> _Found:
        """Read what the owner's stacks wrote to SSM."""

        def value(parameter: Parameter) -> str:
            return ssm.StringParameter.value_for_string_parameter(self, f"{prefix}/{parameter}")

        # a parameter that nothing refers to would be asked for all the same
        beside_gpus = self._places_beside_gpus
        subnets = cdk.Fn.split(",", value(Parameter.SYSTEM_SUBNET_IDS))
        return _Found(
            vpc_id=value(Parameter.VPC_ID),
            # EKS wants two zones, so there are two at least
            subnet_ids=(cdk.Fn.select(0, subnets), cdk.Fn.select(1, subnets)),
            security_group_id=value(Parameter.EKS_SECURITY_GROUP_ID),
            gpu_subnet_id=value(Parameter.GPU_SUBNET_ID) if beside_gpus else None,
            gpu_security_group_id=value(Parameter.EFA_SECURITY_GROUP_ID) if beside_gpus else None,
            hyperpod_arn=value(Parameter.HYPERPOD_ARN),
        )

    def _described(self, spec: ExistingClusterSpec, log_group: logs.ILogGroup) -> _Found:
        """Ask EKS and SageMaker.

        The subnet is HyperPod's: the control plane's need no way out of the VPC, its nodes' do.
        """
        stack = cdk.Stack.of(self)
        network = "cluster.resourcesVpcConfig"
        eks = self._look_up(
            "Eks",
            cr.AwsSdkCall(
                service="eks",
                action="describeCluster",
                parameters={"name": spec.eks_name},
                output_paths=[f"{network}.vpcId", f"{network}.clusterSecurityGroupId"],
                physical_resource_id=cr.PhysicalResourceId.of(spec.eks_name),
            ),
            stack.format_arn(service="eks", resource="cluster", resource_name=spec.eks_name),
            log_group,
        )
        hyperpod = self._look_up(
            "HyperPod",
            cr.AwsSdkCall(
                service="sagemaker",
                action="describeCluster",
                parameters={"ClusterName": spec.hyperpod_name},
                output_paths=["ClusterArn", "VpcConfig.Subnets.0", "VpcConfig.SecurityGroupIds.0"],
                physical_resource_id=cr.PhysicalResourceId.of(spec.hyperpod_name),
            ),
            # its ARN ends with an id that only the answer knows
            stack.format_arn(service="sagemaker", resource="cluster", resource_name="*"),
            log_group,
        )
        subnet_id = hyperpod.get_response_field("VpcConfig.Subnets.0")
        return _Found(
            vpc_id=eks.get_response_field(f"{network}.vpcId"),
            subnet_ids=(subnet_id,),
            security_group_id=eks.get_response_field(f"{network}.clusterSecurityGroupId"),
            gpu_subnet_id=subnet_id,
            gpu_security_group_id=hyperpod.get_response_field("VpcConfig.SecurityGroupIds.0"),
            hyperpod_arn=hyperpod.get_response_field("ClusterArn"),
        )

    def _look_up(
        self, construct_id: str, call: cr.AwsSdkCall, arn: str, log_group: logs.ILogGroup
    ) -> cr.AwsCustomResource:
        return cr.AwsCustomResource(
            self,
            construct_id,
            on_update=call,
            policy=cr.AwsCustomResourcePolicy.from_sdk_calls(resources=[arn]),
            log_group=log_group,
            install_latest_aws_sdk=False,
        )
