"""The platform stack."""

from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
from constructs import Construct, DependencyGroup, IDependable

from hyperpod_dpd.builds import BuildRunner
from hyperpod_dpd.cluster import DpdCluster
from hyperpod_dpd.cluster.existing import ExistingCluster
from hyperpod_dpd.cluster.handle import ClusterHandle
from hyperpod_dpd.cluster.kubectl import Kubectl
from hyperpod_dpd.derive.model_store import has_bucket, import_origin
from hyperpod_dpd.hyperpod import HyperPodCluster
from hyperpod_dpd.images import ProjectImages, PublicImageMirror
from hyperpod_dpd.network import ClusterNetwork
from hyperpod_dpd.observability.alert_topic import AlertTopic
from hyperpod_dpd.readiness import Readiness, Wait, nodes_of
from hyperpod_dpd.security.logs import log_group, logs_key
from hyperpod_dpd.security.secrets import DeploymentSecrets
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.storage import AccessLogs, ModelImport, ModelStore
from stacks.removal import removal_policy

_SOURCES = Path(__file__).parents[1]
"""What the images are built from."""

_NODES_WITHIN = cdk.Duration.hours(12)
"""Deep health checks take hours, scarce capacity longer; CloudFormation waits no longer than this."""


class PlatformStack(cdk.Stack):
    """What nodes need to serve, and what serves once per cluster.

    On a cluster of somebody else only what belongs to this deployment is made: its model, secrets, images and alerts.

    Attributes:
        handle: the cluster.
        kubectl: the way into it.
        readiness: the poller of every wait.
        bindings: values for the placeholders of the reviewed YAML.
        nodes_ready: every GPU node is healthy, to depend on.
        model_ready: the model is in its bucket, to depend on.
        revision: digest of what runs in the pods, where the rendered objects alone do not tell.
        alerts: where alerts go.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        network: ClusterNetwork | None = None,
        cluster: DpdCluster | None = None,
        hyperpod: HyperPodCluster | None = None,
    ) -> None:
        """Wire the platform of `deployment`.

        Args:
            scope: the app.
            construct_id: name of the stack.
            deployment: the deployment.
            network: its network; None on a cluster of somebody else, as the following.
            cluster: its EKS cluster.
            hyperpod: its HyperPod cluster.
        """
        super().__init__(
            scope,
            construct_id,
            env=cdk.Environment(account=deployment.account, region=deployment.region),
            description=f"Platform of {deployment.name}: disaggregated serving on SageMaker HyperPod",
        )
        self._deployment = deployment
        self._removal = removal_policy(deployment)
        self._retention_days = deployment.platform.log_retention_days
        self.log_key = logs_key(self, "LogsKey", removal_policy=self._removal)
        self.handle = self._handle(network, cluster, hyperpod)
        self.kubectl = Kubectl(self, "Kubectl", handle=self.handle)
        self.cluster = self.kubectl.cluster
        self.readiness = Readiness(
            self,
            "Readiness",
            name=deployment.name,
            handle=self.handle,
            kubectl=self.kubectl,
            log_key=self.log_key,
            log_retention_days=self._retention_days,
            removal_policy=self._removal,
        )
        self.nodes_ready: IDependable = Wait(
            self,
            "Nodes",
            readiness=self.readiness,
            requirements=[nodes_of(deployment)],
            within=_NODES_WITHIN,
        ).ready
        self.alerts = AlertTopic(self, "AlertTopic", deployment=deployment, removal_policy=self._removal)
        self.bindings: Mapping[Binding, str] = {}
        self.model_ready: IDependable = DependencyGroup()
        self.revision = ""
        self._model()
        self._images()

    def _handle(
        self,
        network: ClusterNetwork | None,
        cluster: DpdCluster | None,
        hyperpod: HyperPodCluster | None,
    ) -> ClusterHandle:
        existing = self._deployment.cluster.existing
        if existing is not None:
            lookups = log_group(
                self,
                "LookupLogs",
                key=self.log_key,
                retention_days=self._retention_days,
                removal_policy=self._removal,
            )
            return ExistingCluster(self, "Existing", spec=existing, log_group=lookups).handle
        assert network is not None
        assert cluster is not None
        assert hyperpod is not None
        return ClusterHandle(
            eks_name=cluster.cluster.cluster_name,
            eks_arn=cluster.cluster.cluster_arn,
            security_group_id=cluster.cluster.cluster_security_group_id,
            vpc=network.vpc,
            subnets=network.system_subnets,
            hyperpod_name=self._deployment.cluster_name,
            hyperpod_arn=hyperpod.cluster.attr_cluster_arn,
            owned=True,
        )

    def _model(self) -> None:
        deployment = self._deployment
        self.secrets = DeploymentSecrets(self, "Secrets", deployment=deployment, removal_policy=self._removal)
        self.builds = BuildRunner(
            self,
            "Builds",
            log_key=self.log_key,
            log_retention_days=self._retention_days,
            removal_policy=self._removal,
        )
        if not has_bucket(deployment):
            return
        store = ModelStore(
            self,
            "ModelStore",
            deployment=deployment,
            access_logs=AccessLogs(self, "AccessLogs", removal_policy=self._removal),
            removal_policy=self._removal,
        )
        self.bindings = {**self.bindings, **store.bindings}
        if import_origin(deployment) is not None:
            self.model_ready = ModelImport(
                self,
                "ModelImport",
                deployment=deployment,
                store=store,
                secrets=self.secrets,
                builds=self.builds,
            ).imported

    def _images(self) -> None:
        deployment = self._deployment
        images = ProjectImages(
            self,
            "Images",
            deployment=deployment,
            builds=self.builds,
            sources=_SOURCES,
            removal_policy=self._removal,
        )
        self.bindings = {**self.bindings, **images.bindings}
        self.revision = images.revision
        if deployment.platform.images.mirror_public_images:
            mirror = PublicImageMirror(
                self, "ImageMirror", deployment=deployment, builds=self.builds, sources=_SOURCES
            )
            self.bindings = {**self.bindings, **mirror.bindings}
