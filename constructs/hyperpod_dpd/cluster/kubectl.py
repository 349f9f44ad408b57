"""The way of a stack's functions to the Kubernetes API."""

from typing import cast

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer
from constructs import Construct, DependencyGroup, IDependable

from hyperpod_dpd.cluster.handle import ClusterHandle
from hyperpod_dpd.spec.arguments import checked

_HTTPS = 443


@jsii.implements(ec2.IConnectable)
class Kubectl(Construct):
    """Runs Helm and kubectl on a cluster, from inside its VPC, so that a private endpoint is enough.

    The layer carries Helm 4.1 and kubectl 1.35; Helm supports the four newest minor versions that it was built
    against, 1.32 to 1.35, which are the versions of EKS that HyperPod supports and EKS still creates.

    Attributes:
        cluster: the cluster as `HelmChart` and `KubernetesManifest` take it.
        security_group: group of functions that call the Kubernetes API.
        ready: the way in, to depend on: without it the first chart is refused.
    """

    cluster: eks.ICluster
    security_group: ec2.SecurityGroup
    ready: IDependable

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        handle: ClusterHandle,
        log_key: kms.IKey | None = None,
        log_retention_days: int = 90,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Open the way into a cluster, with everything that a cluster administrator may do.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            handle: the cluster.
            log_key: key of the functions' logs, see `logs_key`; absent: CloudWatch Logs' own.
            log_retention_days: days that these logs are kept, a value that CloudWatch Logs accepts.
            removal_policy: whether these logs outlive the stack.
        """
        super().__init__(scope, construct_id)
        self.security_group = ec2.SecurityGroup(
            self,
            "Group",
            vpc=handle.vpc,
            description="Functions that call the Kubernetes API",
            allow_all_outbound=False,
        )
        # S3 and AWS endpoints have no fixed addresses; a closed VPC has no route beyond its endpoints
        way_out = ec2.CfnSecurityGroupEgress(
            self,
            "Https",
            group_id=self.security_group.security_group_id,
            ip_protocol="tcp",
            from_port=_HTTPS,
            to_port=_HTTPS,
            cidr_ip="0.0.0.0/0",
            description="HTTPS to the cluster, AWS and public chart repositories",
        )
        way_in = ec2.CfnSecurityGroupIngress(
            self,
            "ToCluster",
            group_id=handle.security_group_id,
            source_security_group_id=self.security_group.security_group_id,
            ip_protocol="tcp",
            from_port=_HTTPS,
            to_port=_HTTPS,
            description="functions of the platform stack to the API server",
        )
        provider = eks.KubectlProvider(
            self,
            "Provider",
            cluster=_cluster(self, "Controlled", handle),
            kubectl_layer=KubectlV35Layer(self, "Layer"),
            private_subnets=list(handle.subnets),
            security_groups=[self.security_group],
        )
        for group in provider.node.find_all():
            if isinstance(group, logs.CfnLogGroup):
                # two years, without a key, whatever the stack's other logs have
                group.kms_key_id = log_key.key_arn if log_key else None
                group.retention_in_days = log_retention_days
                group.apply_removal_policy(removal_policy)
        self.cluster = _cluster(self, "Cluster", handle, provider)
        role = cast("iam.IRole", provider.role)
        # Kubernetes lets nobody grant what he does not hold, and charts bring ClusterRoles
        access = eks.CfnAccessEntry(
            self,
            "Access",
            cluster_name=handle.eks_name,
            principal_arn=role.role_arn,
            access_policies=[
                eks.CfnAccessEntry.AccessPolicyProperty(
                    policy_arn=cdk.Stack.of(self).format_arn(
                        service="eks",
                        region="",
                        account="aws",
                        resource="cluster-access-policy",
                        resource_name="AmazonEKSClusterAdminPolicy",
                    ),
                    access_scope=eks.CfnAccessEntry.AccessScopeProperty(type="cluster"),
                )
            ],
        )
        # the provider with its log groups: a function that runs before its group exists makes it itself, and the name is
        # taken when CloudFormation comes (aws-cdk #667)
        self.ready = DependencyGroup(access, way_out, way_in, provider)

    @property
    def connections(self) -> ec2.Connections:
        """Connections of those functions, for what they have to reach besides."""
        return self.security_group.connections


def _cluster(
    scope: Construct, construct_id: str, handle: ClusterHandle, provider: eks.KubectlProvider | None = None
) -> eks.ICluster:
    return eks.Cluster.from_cluster_attributes(
        scope,
        construct_id,
        cluster_name=handle.eks_name,
        vpc=handle.vpc,
        cluster_security_group_id=handle.security_group_id,
        kubectl_provider=cast("eks.IKubectlProvider", provider),
    )
