"""The cluster stack."""

import aws_cdk as cdk
from constructs import Construct

from hyperpod_dpd.cluster import DpdCluster
from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.network import ClusterNetwork
from hyperpod_dpd.spec import Deployment
from stacks.parameters import publish
from stacks.removal import removal_policy


class ClusterStack(cdk.Stack):
    """EKS: control plane, system nodes, access, add-ons."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, network: ClusterNetwork
    ) -> None:
        """Wire the cluster of `deployment` into `network`."""
        super().__init__(
            scope,
            construct_id,
            env=cdk.Environment(account=deployment.account, region=deployment.region),
            description=f"EKS of {deployment.name}: disaggregated serving on SageMaker HyperPod",
        )
        self.cluster = DpdCluster(
            self,
            "Cluster",
            spec=deployment.cluster,
            network=network,
            name=deployment.name,
            network_policies=deployment.platform.network_policies,
            log_retention_days=deployment.platform.log_retention_days,
            removal_policy=removal_policy(deployment),
        )
        publish(
            self,
            deployment,
            {
                Parameter.EKS_NAME: self.cluster.cluster.cluster_name,
                Parameter.EKS_ARN: self.cluster.cluster.cluster_arn,
                Parameter.EKS_SECURITY_GROUP_ID: self.cluster.cluster.cluster_security_group_id,
                Parameter.OIDC_PROVIDER_ARN: self.cluster.oidc_provider.oidc_provider_arn,
            },
        )
