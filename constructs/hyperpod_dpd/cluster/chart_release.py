"""A public chart on the cluster, in the catalog's version, from its own repository or from the account's copy."""

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from hyperpod_dpd.catalog.cluster_charts import ClusterChart
from hyperpod_dpd.derive.mirror import CHARTS_PREFIX
from hyperpod_dpd.security.identities import PodIdentity
from hyperpod_dpd.spec import Deployment

_TIMEOUT_MINUTES = 10
"""Below the fifteen that Lambda gives the kubectl provider."""


class ClusterChartRelease(Construct):
    """The chart's release, and the identity of its ServiceAccount in AWS.

    Attributes:
        role: what the chart's pods may do in AWS, through EKS Pod Identity.
        chart: the release; it is complete when Kubernetes has accepted its objects, not when its pods run.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        chart: ClusterChart,
        cluster: eks.ICluster,
        deployment: Deployment,
        values: dict[str, Any],
        registry: str,
        needs: Sequence[IDependable] = (),
    ) -> None:
        """Install it.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            chart: the catalog's row.
            cluster: cluster with a kubectl provider.
            deployment: says whether charts are mirrored.
            values: what is set in the chart.
            registry: the account's registry.
            needs: what must be there before: the provider's access, the copies in the mirror.
        """
        super().__init__(scope, construct_id)
        identity = PodIdentity(
            self,
            "Identity",
            eks_name=cluster.cluster_name,
            eks_arn=cluster.cluster_arn,
            namespace=chart.namespace,
            service_account=chart.service_account,
            description=f"{chart.release} on {deployment.name}",
        )
        self.role = identity.role
        mirrored = deployment.platform.images.mirror_public_images
        name = chart.archive.name
        self.chart = eks.HelmChart(
            self,
            "Chart",
            cluster=cluster,
            release=chart.release,
            namespace=chart.namespace,
            create_namespace=chart.namespace != "kube-system",
            chart=name,
            repository=chart.repository if not mirrored else f"oci://{registry}/{CHARTS_PREFIX}/{name}",
            version=chart.archive.version,
            values=values,
            # whoever needs its pods waits for them by name: the provider's own wait ends after fifteen minutes
            wait=False,
            timeout=cdk.Duration.minutes(_TIMEOUT_MINUTES),
        )
        # a pod that starts before its association has no identity until it is replaced
        self.chart.node.add_dependency(identity, *needs)
