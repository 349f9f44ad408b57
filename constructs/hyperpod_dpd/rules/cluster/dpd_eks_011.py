"""DPD-EKS-011: every add-on has a pinned version for the cluster's Kubernetes version."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.eks import addons, kubernetes_versions
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-011",
    severity=Severity.ERROR,
    title="every add-on is pinned for the Kubernetes version",
    sources=("awslabs/awsome-distributed-ai PR 1111",),
    facts=("P10",),
)
def addons_are_pinned(deployment: Deployment) -> Iterator[Problem]:
    """An add-on without a pin changes under a cluster that nobody touched."""
    cluster = deployment.cluster
    if cluster.kubernetes_version not in {row.version for row in kubernetes_versions()}:
        return
    unpinned = [
        row.name
        for row in addons()
        if row.pins
        and cluster.kubernetes_version not in row.pins
        and row.name not in (cluster.addon_versions or {})
    ]
    if unpinned:
        pinned = sorted({version for row in addons() for version in row.pins})
        yield Problem(
            path="cluster.kubernetes_version",
            says="no version of some add-ons is known for this Kubernetes version",
            given=f"`kubernetes_version: {cluster.kubernetes_version}`",
            computed=", ".join(f"`{name}`" for name in unpinned),
            limit=", ".join(pinned),
            fix=f"name versions under `cluster.addon_versions`, for example of `{unpinned[0]}`",
        )
