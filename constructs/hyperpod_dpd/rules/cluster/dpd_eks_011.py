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
    for row in addons():
        chosen = row.name in (cluster.addon_versions or {})
        if row.pins and cluster.kubernetes_version not in row.pins and not chosen:
            yield Problem(
                path="cluster.kubernetes_version",
                says=f"no version of the add-on `{row.name}` is known for this Kubernetes version",
                given=f"`kubernetes_version: {cluster.kubernetes_version}`",
                limit=", ".join(row.pins),
                fix=f"name one under `cluster.addon_versions.{row.name}`",
            )
