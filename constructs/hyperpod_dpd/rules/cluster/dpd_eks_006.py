"""DPD-EKS-006: HyperPod supports the Kubernetes version."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.eks import DEFAULT_KUBERNETES_VERSION, kubernetes_versions
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-006",
    severity=Severity.ERROR,
    title="HyperPod supports the Kubernetes version",
    sources=("SageMaker DG sagemaker-hyperpod-eks-prerequisites",),
)
def version_is_supported(deployment: Deployment) -> Iterator[Problem]:
    """HyperPod refuses to attach to a cluster of a version that its documentation does not list."""
    given = deployment.cluster.kubernetes_version
    supported = [row.version for row in kubernetes_versions()]
    if given not in supported:
        yield Problem(
            path="cluster.kubernetes_version",
            says="HyperPod does not support this Kubernetes version",
            given=f"`kubernetes_version: {given}`",
            limit=", ".join(supported),
            fix=f'set `kubernetes_version: "{DEFAULT_KUBERNETES_VERSION}"`',
        )
