"""The HyperPod observability add-on: metrics of GPUs, EFA and nodes into the workspace."""

from collections.abc import Sequence
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from hyperpod_dpd.cluster.addons import pinned_addon
from hyperpod_dpd.cluster.handle import ClusterHandle
from hyperpod_dpd.derive.addons import OBSERVABILITY
from hyperpod_dpd.observability.metrics_workspace import MetricsWorkspace
from hyperpod_dpd.readiness.requirements import AddonActive, Requirement
from hyperpod_dpd.security.identities import PodIdentity
from hyperpod_dpd.spec import Deployment

_NAMESPACE: Final = "hyperpod-observability"
_COLLECTOR: Final = "hyperpod-observability-operator-otel-collector"
_SCRAPE_SECONDS: Final = 30
_METRICS: Final = {
    # without this there are no EFA counters, by which a hand-off over TCP is told from one over EFA
    "networkMetrics": "ADVANCED",
    "acceleratedComputeMetrics": "ADVANCED",
    "nodeMetrics": "BASIC",
    "inferenceMetrics": "BASIC",
    # nothing here trains, and tasks are not governed
    "trainingMetrics": "DISABLED",
    "taskGovernanceMetrics": "DISABLED",
    "scalingMetrics": "DISABLED",
    "customMetrics": "DISABLED",
}


class ObservabilityAddon(Construct):
    """The add-on and its collector's identity.

    Attributes:
        addon: the add-on.
        requirements: what must be so before its metrics are asked for.
    """

    requirements: Sequence[Requirement] = (AddonActive(name=OBSERVABILITY),)

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        handle: ClusterHandle,
        metrics: MetricsWorkspace,
        needs: Sequence[IDependable] = (),
    ) -> None:
        """Create the add-on.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: the cluster's owner.
            handle: the cluster.
            metrics: workspace that gets the metrics.
            needs: what must be there before: a node that is large enough, certificates.
        """
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        identity = PodIdentity(
            self,
            "Collector",
            eks_name=handle.eks_name,
            eks_arn=handle.eks_arn,
            namespace=_NAMESPACE,
            service_account=_COLLECTOR,
            description=f"HyperPod observability on {handle.eks_name}",
        )
        metrics.grant_write(identity.role)
        identity.role.add_to_policy(
            iam.PolicyStatement(
                sid="WriteLogs",
                actions=[
                    "logs:CreateLogGroup",
                    "logs:CreateLogStream",
                    "logs:DescribeLogStreams",
                    "logs:PutLogEvents",
                ],
                resources=[
                    stack.format_arn(
                        service="logs",
                        resource="log-group",
                        resource_name=f"/aws/sagemaker/Clusters/{handle.hyperpod_name}/*",
                        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
                    )
                ],
            )
        )
        configuration: dict[str, Any] = {
            "ampWorkspace": {"prometheusEndpoint": metrics.url, "arn": metrics.arn},
            "metricsProvider": {
                name: {"level": level}
                if level == "DISABLED"
                else {"level": level, "scrapeInterval": _SCRAPE_SECONDS}
                for name, level in _METRICS.items()
            },
            "logging": {"enabled": True},
        }
        self.addon = pinned_addon(
            self,
            OBSERVABILITY,
            spec=deployment.cluster,
            cluster_name=handle.eks_name,
            configuration_values=stack.to_json_string(configuration),
        )
        self.addon.node.add_dependency(identity.association, identity.role, *needs)
