"""Public Helm charts that the platform installs, each pinned to its bytes, and the values of theirs that it sets."""

from typing import Final

from hyperpod_dpd.catalog.charts import Artifact
from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record


@record
class ClusterChart:
    """One chart."""

    archive: Artifact
    """The packaged chart."""
    repository: str
    """Repository from which Helm installs it."""
    namespace: str
    release: str
    service_account: str
    """ServiceAccount to which its rights in AWS are given."""
    deployments: tuple[str, ...]
    """Names of its Deployments, which are waited for."""
    images: tuple[str, ...]
    """Images that its pods run with the values that the platform sets."""
    values: tuple[str, ...]
    """Paths in the chart's `values.yaml` that the platform sets. A path that is not the chart's own is ignored by Helm
    without a word, so that a test holds what is set to this list, and a tool holds the list to the chart."""


EXTERNAL_SECRETS: Final = ClusterChart(
    archive=Artifact(
        name="external-secrets",
        version="2.9.0",
        url="https://github.com/external-secrets/external-secrets/releases/download/helm-chart-2.9.0/external-secrets-2.9.0.tgz",
        sha256="da2d5c126a103b4c1b16a9dc1c168c4332a3687144e88ac070e594f81a0b6578",
        source=Source(
            text="external-secrets/external-secrets, tag helm-chart-2.9.0 (deploy/charts/external-secrets); digest of "
            "the archive from one public deployment that pins it",
            as_of="2026-11-30",
            confirmed=False,
        ),
    ),
    repository="https://charts.external-secrets.io",
    namespace="external-secrets",
    release="external-secrets",
    service_account="external-secrets",
    deployments=("external-secrets",),
    images=("ghcr.io/external-secrets/external-secrets:v2.9.0",),
    values=(
        "certController.create",
        "image.repository",
        "image.tag",
        "installCRDs",
        "nodeSelector",
        "processClusterExternalSecret",
        "processClusterGenerator",
        "processClusterPushSecret",
        "processClusterStore",
        "processPushSecret",
        "resources",
        "serviceAccount.name",
        "webhook.create",
    ),
)

KEDA: Final = ClusterChart(
    archive=Artifact(
        name="keda",
        version="2.20.2",
        url="https://kedacore.github.io/charts/keda-2.20.2.tgz",
        sha256="db60b1fa60f0565fefa4ce2f87e855b6a8854363ee82962fbe28a12a70d64c4c",
        source=Source(
            text="kedacore/charts 1444d00: digest in docs/index.yaml and of the file itself",
            as_of="2026-11-30",
        ),
    ),
    repository="https://kedacore.github.io/charts",
    namespace="keda",
    release="keda",
    service_account="keda-operator",
    deployments=("keda-operator", "keda-operator-metrics-apiserver", "keda-admission-webhooks"),
    images=(
        "ghcr.io/kedacore/keda:2.20.2",
        "ghcr.io/kedacore/keda-metrics-apiserver:2.20.2",
        "ghcr.io/kedacore/keda-admission-webhooks:2.20.2",
    ),
    values=(
        "clusterName",
        "image.keda.registry",
        "image.keda.repository",
        "image.keda.tag",
        "image.metricsApiServer.registry",
        "image.metricsApiServer.repository",
        "image.metricsApiServer.tag",
        "image.pullPolicy",
        "image.webhooks.registry",
        "image.webhooks.repository",
        "image.webhooks.tag",
        "nodeSelector",
        "serviceAccount.operator.name",
    ),
)

LOAD_BALANCER_CONTROLLER: Final = ClusterChart(
    archive=Artifact(
        name="aws-load-balancer-controller",
        version="3.5.0",
        url="https://aws.github.io/eks-charts/aws-load-balancer-controller-3.5.0.tgz",
        sha256="45051f634b33e10baccb3354d0681b7de787c60445e599fa276e0c9aedd4ccd5",
        source=Source(
            text="aws/eks-charts gh-pages: digest in index.yaml and of the file itself; chart at commit 5239609",
            as_of="2026-11-30",
        ),
    ),
    repository="https://aws.github.io/eks-charts",
    namespace="kube-system",
    release="aws-load-balancer-controller",
    service_account="aws-load-balancer-controller",
    deployments=("aws-load-balancer-controller",),
    images=("public.ecr.aws/eks/aws-load-balancer-controller:v3.5.0",),
    values=(
        "clusterName",
        "enableServiceMutatorWebhook",
        "image.repository",
        "image.tag",
        "nodeSelector",
        "region",
        "serviceAccount.name",
        "vpcId",
    ),
)

CLUSTER_CHARTS: Final = (EXTERNAL_SECRETS, KEDA, LOAD_BALANCER_CONTROLLER)
