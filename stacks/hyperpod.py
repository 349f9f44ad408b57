"""The HyperPod stack."""

import aws_cdk as cdk
from constructs import Construct

from hyperpod_dpd.cluster import DpdCluster
from hyperpod_dpd.cluster.dependencies_chart import HyperPodDependencies
from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.hyperpod import HyperPodCluster
from hyperpod_dpd.network import ClusterNetwork
from hyperpod_dpd.security.logs import logs_key
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.storage import AccessLogs, LifecycleScripts
from stacks.parameters import publish
from stacks.removal import removal_policy


class HyperPodStack(cdk.Stack):
    """Dependencies chart, lifecycle scripts, HyperPod cluster with its instance groups.

    Attributes:
        hyperpod: the HyperPod cluster.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        network: ClusterNetwork,
        cluster: DpdCluster,
    ) -> None:
        """Wire the HyperPod cluster of `deployment` on `cluster`."""
        super().__init__(
            scope,
            construct_id,
            env=cdk.Environment(account=deployment.account, region=deployment.region),
            description=f"HyperPod cluster of {deployment.name}: disaggregated serving on SageMaker HyperPod",
        )
        removal = removal_policy(deployment)
        retention_days = deployment.platform.log_retention_days
        key = logs_key(self, "LogsKey", removal_policy=removal)
        access_logs = AccessLogs(self, "AccessLogs", removal_policy=removal)
        scripts = LifecycleScripts(
            self,
            "LifecycleScripts",
            name=deployment.name,
            access_logs=access_logs,
            log_key=key,
            log_retention_days=retention_days,
            removal_policy=removal,
        )
        chart = HyperPodDependencies(
            self,
            "DependenciesChart",
            cluster=cluster.cluster,
            network=network,
            source=deployment.cluster.dependencies_chart,
            log_key=key,
            log_retention_days=retention_days,
            removal_policy=removal,
        )
        self.hyperpod = HyperPodCluster(
            self,
            "HyperPod",
            name=deployment.cluster_name,
            spec=deployment.hyperpod,
            cluster=cluster.cluster,
            network=network,
            scripts=scripts,
            chart=chart,
            needs=[cluster.ready],
            removal_policy=removal,
        )
        publish(
            self,
            deployment,
            {
                Parameter.HYPERPOD_NAME: deployment.cluster_name,
                Parameter.HYPERPOD_ARN: self.hyperpod.cluster.attr_cluster_arn,
            },
        )
