"""What exists once per cluster, and is the cluster's owner's to install."""

import json
from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct, DependencyGroup, IDependable

from hyperpod_dpd.catalog.cluster_charts import EXTERNAL_SECRETS, KEDA, LOAD_BALANCER_CONTROLLER
from hyperpod_dpd.catalog.eks import AddonPhase, addons
from hyperpod_dpd.cluster.chart_release import ClusterChartRelease
from hyperpod_dpd.cluster.chart_values import keda_values, load_balancer_controller_values
from hyperpod_dpd.cluster.external_secrets import ExternalSecrets
from hyperpod_dpd.cluster.handle import ClusterHandle
from hyperpod_dpd.cluster.inference_operator import InferenceOperator
from hyperpod_dpd.cluster.keda_policy import keda_statements
from hyperpod_dpd.cluster.kubectl import Kubectl
from hyperpod_dpd.cluster.load_balancer_policy import load_balancer_statements
from hyperpod_dpd.cluster.load_balancer_webhook import INGRESS_WEBHOOK
from hyperpod_dpd.cluster.observability_addon import ObservabilityAddon
from hyperpod_dpd.cluster.platform_addons import PlatformAddons
from hyperpod_dpd.derive.addons import addon_version
from hyperpod_dpd.derive.mirror import cluster_charts
from hyperpod_dpd.images import account_registry
from hyperpod_dpd.observability.collector import SERVICE_ACCOUNT as COLLECTOR
from hyperpod_dpd.observability.managed_grafana import ManagedGrafana
from hyperpod_dpd.observability.metrics_workspace import MetricsWorkspace
from hyperpod_dpd.observability.watch import ClusterWatch
from hyperpod_dpd.readiness import Readiness, Requirement, Rollout, Wait
from hyperpod_dpd.security.identities import PodIdentity
from hyperpod_dpd.security.secrets import DeploymentSecrets
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.release import Release
from hyperpod_dpd.serving.render import render_platform
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.storage import AccessLogs

RELEASE = "hyperpod-dpd-platform"
"""Helm release of the collector, exporters and dashboards: one per cluster, whoever's deployments are on it."""

_ADDONS_WITHIN = cdk.Duration.hours(1)
"""EKS gives up on an add-on after 20 minutes; certificates and images come on top."""


class ClusterPlatform(Construct):
    """Add-ons, controllers, metrics and secrets of a cluster.

    Attributes:
        metrics: the workspace of metrics, None where nothing is measured.
        s3_driver_role: identity of the S3 driver.
        bindings: values for the placeholders of the reviewed YAML, those that were given among them.
        ready: everything works, to depend on.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        handle: ClusterHandle,
        kubectl: Kubectl,
        readiness: Readiness,
        oidc_provider_arn: str,
        nodes_ready: IDependable,
        images_ready: Sequence[IDependable],
        bindings: Mapping[Binding, str],
        secrets: DeploymentSecrets,
        topic: sns.ITopic,
        access_logs: AccessLogs,
        log_key: kms.IKey,
        removal_policy: cdk.RemovalPolicy,
    ) -> None:
        """Wire the platform.

        Args:
            scope: the stack.
            construct_id: its id.
            deployment: the cluster's owner.
            handle: the cluster.
            kubectl: the way into it.
            readiness: the poller.
            oidc_provider_arn: ARN of the IAM identity provider of the cluster.
            nodes_ready: GPU nodes, without which some add-ons have nowhere to run.
            images_ready: copies of public images and charts, where they are mirrored.
            bindings: what the rest of the stack gives to placeholders, such as the registry of mirrored images.
            secrets: the owner's secrets.
            topic: where alerts go.
            access_logs: where access logs of buckets go.
            log_key: key of logs.
            removal_policy: what happens to state when the stack goes.
        """
        super().__init__(scope, construct_id)
        self._deployment = deployment
        self._handle = handle
        self._kubectl = kubectl
        self._readiness = readiness
        self._charts_need = (kubectl.ready, *images_ready)
        self._registry = account_registry(cdk.Stack.of(self))
        platform = deployment.platform
        self.metrics = self._metrics(topic, log_key, removal_policy)
        self.bindings: Mapping[Binding, str] = {
            **bindings,
            **(self.metrics.bindings if self.metrics else {}),
        }
        ClusterWatch(
            self,
            "Watch",
            deployment=deployment,
            topic=topic,
            eks_name=handle.eks_name,
            hyperpod_name=handle.hyperpod_name,
            hyperpod_arn=handle.hyperpod_arn,
            log_key=log_key,
            removal_policy=removal_policy,
        )
        foundation = PlatformAddons(
            self,
            "Addons",
            spec=deployment.cluster,
            handle=handle,
            oidc_provider_arn=oidc_provider_arn,
            needs=[nodes_ready],
        )
        self.s3_driver_role = foundation.s3_driver_role
        foundations = self._wait("AddonsWork", foundation.requirements, [foundation.ready])
        requirements: list[Requirement] = []
        parts: list[IDependable] = []
        if platform.inference_operator is not None:
            operator = InferenceOperator(
                self,
                "InferenceOperator",
                deployment=deployment,
                handle=handle,
                oidc_provider_arn=oidc_provider_arn,
                node_security_group_ids=self._node_groups,
                metrics=self.metrics,
                access_logs=access_logs,
                removal_policy=removal_policy,
                needs=[foundations],
            )
            requirements += operator.requirements
            parts.append(operator.addon)
        if platform.observability_addon and self.metrics is not None:
            observability = ObservabilityAddon(
                self,
                "Observability",
                deployment=deployment,
                handle=handle,
                metrics=self.metrics,
                needs=[foundations, *parts],
            )
            requirements += observability.requirements
            parts.append(observability.addon)
        parts += [release.chart for release in self._controllers()]
        requirements += [
            Rollout(namespace=chart.namespace, name=name)
            for chart in cluster_charts(deployment)
            for name in chart.deployments
        ]
        if platform.has_load_balancer_controller:
            requirements.append(INGRESS_WEBHOOK)
        if EXTERNAL_SECRETS in cluster_charts(deployment):
            parts.append(
                ExternalSecrets(
                    self,
                    "ExternalSecrets",
                    deployment=deployment,
                    cluster=kubectl.cluster,
                    secrets=secrets,
                    registry=self._registry,
                    needs=self._charts_need,
                ).ready
            )
        controllers = self._wait("ControllersWork", requirements, parts) if requirements else foundations
        self.ready: IDependable = DependencyGroup(controllers, *self._release(controllers))

    @property
    def _node_groups(self) -> list[str]:
        assert self._handle.gpu_security_group_id is not None
        return [self._handle.security_group_id, self._handle.gpu_security_group_id]

    def _wait(
        self, construct_id: str, requirements: Sequence[Requirement], needs: Sequence[IDependable]
    ) -> IDependable:
        return Wait(
            self,
            construct_id,
            readiness=self._readiness,
            requirements=requirements,
            within=_ADDONS_WITHIN,
            revision=_versions(self._deployment),
            needs=needs,
        ).ready

    def _metrics(
        self, topic: sns.ITopic, log_key: kms.IKey, removal_policy: cdk.RemovalPolicy
    ) -> MetricsWorkspace | None:
        platform = self._deployment.platform
        if not platform.is_measured:
            return None
        metrics = MetricsWorkspace(
            self,
            "Metrics",
            deployment=self._deployment,
            topic=topic,
            log_key=log_key,
            removal_policy=removal_policy,
        )
        if platform.grafana == "managed":
            ManagedGrafana(
                self,
                "Grafana",
                deployment=self._deployment,
                metrics=metrics,
                log_key=log_key,
                removal_policy=removal_policy,
            )
        return metrics

    def _controllers(self) -> list[ClusterChartRelease]:
        """Install KEDA and the load balancer controller where the inference add-on does not bring them."""
        handle, registry = self._handle, self._registry
        values = {
            KEDA: keda_values(self._deployment, cluster_name=handle.eks_name, registry=registry),
            LOAD_BALANCER_CONTROLLER: load_balancer_controller_values(
                self._deployment,
                cluster_name=handle.eks_name,
                vpc_id=handle.vpc.vpc_id,
                registry=registry,
            ),
        }
        statements = {
            KEDA: keda_statements(self.metrics),
            LOAD_BALANCER_CONTROLLER: load_balancer_statements(
                cdk.Stack.of(self),
                eks_name=handle.eks_name,
                vpc_id=handle.vpc.vpc_id,
                node_security_group_ids=self._node_groups,
            ),
        }
        releases = []
        for chart in cluster_charts(self._deployment):
            if chart not in values:
                continue
            release = ClusterChartRelease(
                self,
                chart.release,
                chart=chart,
                cluster=self._kubectl.cluster,
                deployment=self._deployment,
                values=values[chart],
                registry=registry,
                needs=self._charts_need,
            )
            for statement in statements[chart]:
                release.role.add_to_policy(statement)
            releases.append(release)
        return releases

    def _release(self, controllers: IDependable) -> list[IDependable]:
        """Install collector, exporters and dashboards, with the collector's identity."""
        rendering = render_platform(self._deployment)
        if not rendering.files:
            return []
        release = Release(
            self,
            "Release",
            cluster=self._kubectl.cluster,
            rendering=rendering,
            name=RELEASE,
            bindings=self.bindings,
        )
        release.chart.node.add_dependency(controllers, *self._charts_need)
        if self._deployment.platform.scraping == "collector" and self.metrics is not None:
            collector = PodIdentity(
                self,
                "Collector",
                eks_name=self._handle.eks_name,
                eks_arn=self._handle.eks_arn,
                namespace=self._deployment.platform.scraping_namespace,
                service_account=COLLECTOR,
                description=f"Metrics collector on {self._handle.eks_name}",
            )
            self.metrics.grant_write(collector.role)
            release.chart.node.add_dependency(collector.association, collector.role)
        return [release.chart]


def _versions(deployment: Deployment) -> str:
    """Return the versions of everything that is waited for: another version is another wait."""
    operator = deployment.platform.inference_operator
    chosen = {
        row.name: addon_version(deployment.cluster, row.name)
        for row in addons()
        if row.phase is AddonPhase.PLATFORM
    }
    charts = {chart.release: chart.archive.version for chart in cluster_charts(deployment)}
    return json.dumps([chosen, operator.version if operator else None, charts], sort_keys=True)
