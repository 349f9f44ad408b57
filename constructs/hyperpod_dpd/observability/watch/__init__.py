"""What Prometheus cannot see: events of HyperPod and EKS, missing nodes, add-ons, the end of a training plan."""

from hyperpod_dpd.observability.watch.construct import ClusterWatch

__all__ = ["ClusterWatch"]
