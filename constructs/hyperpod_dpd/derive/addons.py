"""Which version of an EKS add-on a cluster gets."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.catalog.eks import Addon, addon, addons, kubernetes_version
from hyperpod_dpd.spec import Cluster, Deployment

INFERENCE_OPERATOR: Final = "amazon-sagemaker-hyperpod-inference"
"""Add-on with the inference operator, the load balancer controller and KEDA."""

OBSERVABILITY: Final = "amazon-sagemaker-hyperpod-observability"
"""Add-on with exporters and a collector."""


def addon_version(cluster: Cluster, name: str) -> str | None:
    """Return the version of the add-on `name`: the cluster's own, else the catalog's pin, else None (EKS decides).

    Raises:
        UnknownCatalogEntryError: the catalog has no such add-on, no such Kubernetes version, or no pin for it.
    """
    kubernetes_version(cluster.kubernetes_version)
    row = addon(name)
    given = (cluster.addon_versions or {}).get(name)
    return given or row.pin(cluster.kubernetes_version)


def installed_addons(deployment: Deployment) -> Iterator[Addon]:
    """Yield the add-ons that the owner of a cluster installs with `deployment`."""
    platform = deployment.platform
    left_out = set()
    if platform.inference_operator is None:
        left_out.add(INFERENCE_OPERATOR)
    if not platform.observability_addon:
        left_out.add(OBSERVABILITY)
    for row in addons():
        if row.name not in left_out:
            yield row


def recorded_addons(deployment: Deployment) -> tuple[str, ...]:
    """Return the add-ons whose version is neither given nor confirmed, but found in public records of other accounts."""
    given = set(deployment.cluster.addon_versions or {})
    operator = deployment.platform.inference_operator
    if operator is not None and operator.version is not None:
        given.add(INFERENCE_OPERATOR)
    return tuple(
        row.name
        for row in installed_addons(deployment)
        if row.pins and not row.source.confirmed and row.name not in given
    )
