"""DPD-EKS-007: EKS still creates clusters of the version."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.eks import DEFAULT_KUBERNETES_VERSION, kubernetes_versions
from hyperpod_dpd.rules.cluster.today import today
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-007",
    severity=Severity.ERROR,
    title="extended support of the Kubernetes version has not ended",
    sources=("EKS user guide, kubernetes-versions, release calendar",),
)
def version_is_not_gone(deployment: Deployment) -> Iterator[Problem]:
    """EKS creates no cluster of a version past extended support and upgrades existing ones by itself."""
    date = today()
    for row in kubernetes_versions():
        if row.version == deployment.cluster.kubernetes_version and row.end_of_extended_support <= date:
            yield Problem(
                path="cluster.kubernetes_version",
                says="EKS no longer has this Kubernetes version",
                given=f"`kubernetes_version: {row.version}` on {date}",
                limit=f"extended support ended on {row.end_of_extended_support}",
                fix=f'set `kubernetes_version: "{DEFAULT_KUBERNETES_VERSION}"`',
            )
