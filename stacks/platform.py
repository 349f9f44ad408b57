"""The platform stack."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct, DependencyGroup, IDependable

from hyperpod_dpd.builds import BuildRunner
from hyperpod_dpd.cluster import DpdCluster
from hyperpod_dpd.cluster.existing import ExistingCluster
from hyperpod_dpd.cluster.handle import ClusterHandle
from hyperpod_dpd.cluster.kubectl import Kubectl
from hyperpod_dpd.derive.model_store import has_bucket, import_origin, makes_file_system
from hyperpod_dpd.derive.parameters import Parameter, parameter_name
from hyperpod_dpd.evidence.benchmark_store import BenchmarkStore
from hyperpod_dpd.hyperpod import HyperPodCluster
from hyperpod_dpd.images import ProjectImages, PublicImageMirror
from hyperpod_dpd.network import ClusterNetwork
from hyperpod_dpd.observability.alert_topic import AlertTopic
from hyperpod_dpd.observability.managed_rules import ManagedRules
from hyperpod_dpd.observability.metrics_workspace import READS
from hyperpod_dpd.readiness import Readiness, Wait, nodes_of
from hyperpod_dpd.scaling.budget import MonthlyBudget
from hyperpod_dpd.scaling.nights_off import NightsOff
from hyperpod_dpd.security.helper_function import keep_helper_logs
from hyperpod_dpd.security.identities import PodIdentity
from hyperpod_dpd.security.logs import log_group, logs_key
from hyperpod_dpd.security.secrets import DeploymentSecrets
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.worker_identity import WorkerIdentity
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.storage import AccessLogs, ModelFileSystem, ModelImport, ModelStore
from stacks.bindings import PublishedBindings, publish_bindings
from stacks.cluster_platform import ClusterPlatform
from stacks.parameters import publish
from stacks.removal import removal_policy

_SOURCES = Path(__file__).parents[1]
"""What the images are built from."""

_NODES_WITHIN = cdk.Duration.hours(12)
"""Deep health checks take hours, scarce capacity longer; CloudFormation waits no longer than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What the deployments on a cluster share, as far as it is known here."""

    metrics_arn: str | None
    metrics_url: str | None
    s3_driver_role: iam.IRole | None


class PlatformStack(cdk.Stack):
    """What nodes need to serve, and what serves once per cluster.

    On a cluster of somebody else only what belongs to this deployment is made: its model, secrets, images and alerts.

    Attributes:
        handle: the cluster.
        kubectl: the way into it.
        readiness: the poller of every wait.
        bindings: values for the placeholders of the reviewed YAML, in this stack; `bindings_in` gives them to others.
        nodes_ready: every GPU node is healthy, to depend on.
        model_ready: the model is in its bucket, to depend on.
        revision: digest of what runs in the pods, where the rendered objects alone do not tell.
        alerts: where alerts go.
        cluster_ready: what exists once per cluster works, to depend on; nothing on a cluster of somebody else.
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
        self.kubectl = Kubectl(
            self,
            "Kubectl",
            handle=self.handle,
            log_key=self.log_key,
            log_retention_days=self._retention_days,
            removal_policy=self._removal,
        )
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
        self._access_logs = AccessLogs(self, "AccessLogs", removal_policy=self._removal)
        self.secrets = DeploymentSecrets(self, "Secrets", deployment=deployment, removal_policy=self._removal)
        if self.secrets.fill_commands:
            cdk.CfnOutput(
                self,
                "FillSecretsCommand",
                description="Has to be run before the model is imported and the router lets clients in",
                value="; ".join(self.secrets.fill_commands),
            )
        self.builds = BuildRunner(
            self,
            "Builds",
            log_key=self.log_key,
            log_retention_days=self._retention_days,
            removal_policy=self._removal,
        )
        self.bindings: Mapping[Binding, str] = {}
        self.model_ready: IDependable = DependencyGroup()
        self.cluster_ready: IDependable = DependencyGroup()
        self.revision = ""
        self._mirror: PublicImageMirror | None = None
        self._images()
        store = self._model()
        shared = self._owned(cluster, hyperpod) if cluster and hyperpod else self._shared()
        self._identities(shared, store)
        self._benchmarks(store)
        if shared.metrics_arn is not None and deployment.platform.scraping == "collector":
            ManagedRules(self, "Rules", deployment=deployment, workspace_arn=shared.metrics_arn)
        if deployment.platform.monthly_budget_usd is not None:
            MonthlyBudget(
                self,
                "Budget",
                deployment=deployment,
                monthly_usd=deployment.platform.monthly_budget_usd,
                topic=self.alerts.topic,
            )
        publish_bindings(Construct(self, "Bindings"), deployment, self.bindings)
        keep_helper_logs(
            self, key=self.log_key, retention_days=self._retention_days, removal_policy=self._removal
        )

    def bindings_in(self, stack: cdk.Stack) -> Mapping[Binding, str]:
        """Return the bindings as `stack` reads them, which is deployed after this one."""
        return PublishedBindings(stack, self._deployment, self.bindings)

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
            return ExistingCluster(
                self,
                "Existing",
                spec=existing,
                log_group=lookups,
                places_beside_gpus=makes_file_system(self._deployment),
            ).handle
        assert network is not None
        assert cluster is not None
        assert hyperpod is not None
        return ClusterHandle(
            # the name is the deployment's own: said in words, so that policies and reviewers see it
            eks_name=self._deployment.name,
            eks_arn=self.format_arn(service="eks", resource="cluster", resource_name=self._deployment.name),
            security_group_id=cluster.cluster.cluster_security_group_id,
            vpc=network.vpc,
            subnets=network.system_subnets,
            gpu_subnet_id=network.gpu_subnet.subnet_id,
            gpu_security_group_id=network.efa_security_group.security_group_id,
            hyperpod_name=self._deployment.cluster_name,
            hyperpod_arn=hyperpod.cluster.attr_cluster_arn,
        )

    def _owned(self, cluster: DpdCluster, hyperpod: HyperPodCluster) -> _Shared:
        """Install what exists once per cluster, and publish what other deployments on it use."""
        deployment = self._deployment
        platform = ClusterPlatform(
            self,
            "Cluster",
            deployment=deployment,
            handle=self.handle,
            kubectl=self.kubectl,
            readiness=self.readiness,
            oidc_provider_arn=cluster.oidc_provider.oidc_provider_arn,
            nodes_ready=self.nodes_ready,
            images_ready=[self._mirror.ready] if self._mirror else [],
            bindings=self.bindings,
            secrets=self.secrets,
            topic=self.alerts.topic,
            access_logs=self._access_logs,
            log_key=self.log_key,
            removal_policy=self._removal,
        )
        self.bindings = platform.bindings
        self.cluster_ready = platform.ready
        if deployment.platform.nights_off is not None:
            NightsOff(
                self,
                "NightsOff",
                deployment=deployment,
                schedule=deployment.platform.nights_off,
                hyperpod_name=self.handle.hyperpod_name,
                hyperpod_arn=self.handle.hyperpod_arn,
                execution_role_arn=hyperpod.role.role_arn,
                topic=self.alerts.topic,
                log_key=self.log_key,
                removal_policy=self._removal,
            )
        metrics = platform.metrics
        publish(
            self,
            deployment,
            {
                Parameter.S3_DRIVER_ROLE_NAME: platform.s3_driver_role.role_name,
                **(
                    {
                        Parameter.METRICS_WORKSPACE_ARN: metrics.arn,
                        Parameter.METRICS_WORKSPACE_URL: metrics.url,
                    }
                    if metrics
                    else {}
                ),
            },
        )
        return _Shared(
            metrics_arn=metrics.arn if metrics else None,
            metrics_url=metrics.url if metrics else None,
            s3_driver_role=platform.s3_driver_role,
        )

    def _shared(self) -> _Shared:
        """Find what the cluster's owner published; somebody who publishes nothing is asked for it in the documents."""
        existing = self._deployment.cluster.existing
        if existing is None or existing.parameter_prefix is None:
            return _Shared(metrics_arn=None, metrics_url=None, s3_driver_role=None)

        def value(parameter: Parameter) -> str:
            return ssm.StringParameter.value_for_string_parameter(
                self, parameter_name(self._deployment, parameter)
            )

        measured = self._deployment.platform.is_measured
        url = value(Parameter.METRICS_WORKSPACE_URL) if measured else None
        if url is not None:
            self.bindings = {**self.bindings, Binding.AMP_WORKSPACE_URL: url}
        return _Shared(
            metrics_arn=value(Parameter.METRICS_WORKSPACE_ARN) if measured else None,
            metrics_url=url,
            s3_driver_role=iam.Role.from_role_name(self, "S3Driver", value(Parameter.S3_DRIVER_ROLE_NAME)),
        )

    def _identities(self, shared: _Shared, store: ModelStore | None) -> None:
        """Let workers read the model, and the proof read the metrics. The router needs nothing of AWS."""
        deployment = self._deployment
        if store is not None and deployment.serving.backend == "self-managed":
            store.grant_read(WorkerIdentity(self, "Workers", deployment=deployment, handle=self.handle))
        if store is not None and shared.s3_driver_role is not None:
            # a policy of this stack, because the role may be somebody else's
            iam.Policy(
                self,
                "MountModel",
                statements=store.read_statements(),
                roles=[shared.s3_driver_role],
            )
        if shared.metrics_arn is not None:
            proof = PodIdentity(
                self,
                "Proof",
                eks_name=self.handle.eks_name,
                eks_arn=self.handle.eks_arn,
                namespace=names.system_namespace(deployment),
                service_account=names.Component.PROOF.value,
                description=f"{names.Component.PROOF.value} of {deployment.name}",
            )
            proof.role.add_to_policy(iam.PolicyStatement(actions=list(READS), resources=[shared.metrics_arn]))

    def _benchmarks(self, store: ModelStore | None) -> None:
        results = BenchmarkStore(
            self,
            "Benchmarks",
            deployment=self._deployment,
            eks_name=self.handle.eks_name,
            eks_arn=self.handle.eks_arn,
            access_logs=self._access_logs,
            models=store,
            removal_policy=self._removal,
        )
        self.bindings = {**self.bindings, **results.bindings}

    def _model(self) -> ModelStore | None:
        """Make the bucket, fill it, and show it as a file system, as far as the deployment asks for each."""
        deployment = self._deployment
        if not has_bucket(deployment):
            return None
        store = ModelStore(
            self,
            "ModelStore",
            deployment=deployment,
            access_logs=self._access_logs,
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
        if makes_file_system(deployment):
            assert self.handle.gpu_subnet_id is not None
            assert self.handle.gpu_security_group_id is not None
            files = ModelFileSystem(
                self,
                "ModelFileSystem",
                deployment=deployment,
                store=store,
                vpc_id=self.handle.vpc.vpc_id,
                subnet_id=self.handle.gpu_subnet_id,
                client_security_group_ids=[self.handle.gpu_security_group_id, self.handle.security_group_id],
                after=self.model_ready,
                removal_policy=self._removal,
            )
            self.bindings = {**self.bindings, **files.bindings}
        return store

    def _images(self) -> None:
        deployment = self._deployment
        images = ProjectImages(
            self,
            "Images",
            deployment=deployment,
            builds=self.builds,
            sources=_SOURCES,
        )
        self.bindings = {**self.bindings, **images.bindings}
        self.revision = images.revision
        if deployment.platform.images.mirror_public_images:
            self._mirror = PublicImageMirror(
                self, "ImageMirror", deployment=deployment, builds=self.builds, sources=_SOURCES
            )
            self.bindings = {**self.bindings, **self._mirror.bindings}
