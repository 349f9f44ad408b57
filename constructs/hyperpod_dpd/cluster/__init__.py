"""EKS as HyperPod needs it."""

from hyperpod_dpd.cluster.cluster import DpdCluster

__all__ = ["DpdCluster"]
