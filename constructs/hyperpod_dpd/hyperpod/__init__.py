"""The SageMaker HyperPod cluster: execution role, instance groups, cluster."""

from hyperpod_dpd.hyperpod.cluster import HyperPodCluster
from hyperpod_dpd.hyperpod.execution_role import ExecutionRole

__all__ = ["ExecutionRole", "HyperPodCluster"]
