"""Where a status is read from, in the order in which it is shown."""

from hyperpod_dpd.status.observation import Source
from hyperpod_dpd.status.sources.alerts import alerts
from hyperpod_dpd.status.sources.eks import eks
from hyperpod_dpd.status.sources.endpoint import endpoint
from hyperpod_dpd.status.sources.hyperpod import events, hyperpod, nodes
from hyperpod_dpd.status.sources.pods import pods
from hyperpod_dpd.status.sources.stacks import stacks

SOURCES: dict[str, Source] = {
    "stacks": stacks,
    "EKS": eks,
    "HyperPod": hyperpod,
    "nodes": nodes,
    "events": events,
    "pods": pods,
    "endpoint": endpoint,
    "alerts": alerts,
}
"""Sources by title."""
