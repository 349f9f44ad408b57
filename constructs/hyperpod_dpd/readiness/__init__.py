"""Waiting for what CloudFormation takes for done too early: nodes, add-ons, rollouts, jobs, deletions."""

from hyperpod_dpd.readiness.gone import Gone
from hyperpod_dpd.readiness.readiness import Readiness
from hyperpod_dpd.readiness.requirements import (
    AddonActive,
    JobComplete,
    NodeGroup,
    NodesHealthy,
    Requirement,
    ResourceState,
    Rollout,
    ServiceAnswers,
    WebhookAnswers,
    nodes_of,
)
from hyperpod_dpd.readiness.wait import Wait

__all__ = [
    "AddonActive",
    "Gone",
    "JobComplete",
    "NodeGroup",
    "NodesHealthy",
    "Readiness",
    "Requirement",
    "ResourceState",
    "Rollout",
    "ServiceAnswers",
    "Wait",
    "WebhookAnswers",
    "nodes_of",
]
