"""Which version of an EKS add-on a cluster gets."""

from typing import Final

from hyperpod_dpd.catalog.eks import addon, kubernetes_version
from hyperpod_dpd.spec import Cluster

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
