"""The HyperPod cluster."""

from collections.abc import Sequence
from typing import Literal

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct, IDependable

from hyperpod_dpd.cluster.dependencies_chart import HyperPodDependencies
from hyperpod_dpd.hyperpod.execution_role import ExecutionRole
from hyperpod_dpd.hyperpod.instance_groups import instance_group
from hyperpod_dpd.network import ClusterNetwork
from hyperpod_dpd.network.self_traffic import require_self_traffic
from hyperpod_dpd.spec import HyperPod
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.storage import LifecycleScripts

EventLevel = Literal["Info", "Warn", "Error"]
"""How grave HyperPod says an event is."""


@jsii.implements(ec2.IConnectable, iam.IGrantable)
class HyperPodCluster(Construct):
    """A HyperPod cluster on EKS with the instance groups of the specification.

    The name is explicit, so that CloudFormation itself refuses a change that would replace the cluster and give its
    capacity away. Grants go to the nodes' execution role: `bucket.grant_read(hyperpod)`. What a pod needs belongs to
    the pod's own identity instead.

    Attributes:
        cluster: the L1 cluster.
        role: execution role of its nodes.
    """

    cluster: sagemaker.CfnCluster
    role: iam.Role

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        spec: HyperPod,
        cluster: eks.ICluster | eks.Cluster,
        network: ClusterNetwork,
        scripts: LifecycleScripts,
        chart: HyperPodDependencies,
        needs: Sequence[IDependable] = (),
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create the cluster.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            name: cluster name.
            spec: groups and modes.
            cluster: EKS cluster that the nodes join.
            network: GPU subnet and EFA security group; its rules and the subnet's way out are waited for, because
                the ids of both say nothing about them.
            scripts: lifecycle scripts.
            chart: dependencies chart, without which HyperPod refuses the EKS cluster.
            needs: what else must exist first, such as `DpdCluster.ready`.
            removal_policy: whether the cluster, and with it the capacity, outlives the stack.

        Raises:
            ValueError: a group asks for what HyperPod cannot do.
        """
        super().__init__(scope, construct_id)
        self._spec = spec
        self._network = network
        require_self_traffic(self, network.efa_security_group)
        subnet_id = network.gpu_subnet.subnet_id
        security_group_id = network.efa_security_group.security_group_id
        execution = ExecutionRole(
            self,
            "ExecutionRole",
            cluster=cluster,
            scripts=scripts.bucket,
            subnet_ids=[subnet_id],
            security_group_ids=[security_group_id],
            volume_keys=[
                group.volumes_kms_key_arn for group in spec.instance_groups if group.volumes_kms_key_arn
            ],
        )
        self.role = execution.role
        self.cluster = sagemaker.CfnCluster(
            self,
            "Resource",
            cluster_name=name,
            orchestrator=sagemaker.CfnCluster.OrchestratorProperty(
                eks=sagemaker.CfnCluster.ClusterOrchestratorEksConfigProperty(cluster_arn=cluster.cluster_arn)
            ),
            vpc_config=sagemaker.CfnCluster.VpcConfigProperty(
                security_group_ids=[security_group_id], subnets=[subnet_id]
            ),
            node_recovery="Automatic" if spec.node_recovery == "automatic" else "None",
            node_provisioning_mode="Continuous" if spec.continuous_provisioning else None,
            tiered_storage_config=_tiered_storage(spec),
            instance_groups=[
                instance_group(
                    group,
                    execution_role_arn=execution.role.role_arn,
                    scripts_uri=scripts.uri,
                    on_create=scripts.on_create,
                    subnet_id=subnet_id,
                    security_group_id=security_group_id,
                )
                for group in spec.instance_groups
            ],
        )
        self.cluster.apply_removal_policy(removal_policy)
        self.cluster.node.add_dependency(
            # the role alone exists before it may do anything: "Unable to retrieve subnets"
            execution.policies,
            scripts.upload,
            chart.resource,
            *network.efa_rules,
            *([network.gpu_route] if network.gpu_route is not None else []),
            *needs,
        )

    @property
    def connections(self) -> ec2.Connections:
        """Connections of the nodes."""
        return self._network.efa_security_group.connections

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """The nodes' execution role."""
        return self.role.grant_principal

    def on_cluster_event(
        self,
        construct_id: str,
        *,
        target: events.IRuleTarget,
        levels: Sequence[EventLevel] = ("Warn", "Error"),
    ) -> events.Rule:
        """Send what HyperPod reports about the cluster, its groups and nodes to `target`.

        HyperPod publishes no CloudWatch metrics; these events are how it says that a node fails or capacity is missing.
        It sends them for clusters with continuous provisioning only (SageMaker DG
        sagemaker-hyperpod-cluster-events-reference).

        Args:
            construct_id: id of the rule.
            target: where the events go.
            levels: which events go there.

        Raises:
            ValueError: the cluster has no continuous provisioning, so that no event would ever come.
        """
        if not self._spec.continuous_provisioning:
            raise ValueError(
                "HyperPod sends no events: given `continuous_provisioning: false`. help: set it to true"
            )
        return events.Rule(
            self,
            construct_id,
            event_pattern=events.EventPattern(
                source=["aws.sagemaker"],
                detail_type=["SageMaker HyperPod Cluster Event"],
                resources=[self.cluster.attr_cluster_arn],
                detail={"EventDetails": {"EventLevel": list(levels)}},
            ),
            targets=[target],
        )


def _tiered_storage(spec: HyperPod) -> sagemaker.CfnCluster.TieredStorageConfigProperty | None:
    percent = spec.tiered_storage_memory_percent
    if percent is None:
        return None
    return sagemaker.CfnCluster.TieredStorageConfigProperty(
        mode="Enable", instance_memory_allocation_percentage=percent
    )
