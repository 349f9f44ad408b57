"""What has to be so before a rendering that was applied serves, and how long that may take."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hyperpod_dpd.readiness.requirements import JobComplete, Requirement, ResourceState, Rollout
from hyperpod_dpd.serving.render import Rendering
from hyperpod_dpd.spec.arguments import checked

LONGEST_SECONDS: Final = 12 * 3600
"""Longest wait of a CloudFormation wait condition."""

_MARGIN_SECONDS: Final = 600
"""Time for the API server, the scheduler and the poller, beside what the workloads themselves are given."""

_OPERATOR_SECONDS: Final = 3600
"""`maxDeployTimeInSeconds` of an InferenceEndpointConfig that gives none (CRD of the inference operator)."""

_PROGRESS_SECONDS: Final = 600
"""Kubernetes' own deadline for the progress of a Deployment that sets none."""

_JOB_SECONDS: Final = 3600
"""Time for a Job that sets no limit of its own."""


@checked
def requirements_of(rendering: Rendering) -> tuple[Requirement, ...]:
    """Return what has to be so, one requirement for each workload; empty where nothing runs."""
    return tuple(each for entry in rendering.objects for each in _requirement(entry))


@checked
def rollout_seconds(rendering: Rendering) -> int:
    """Return how long the workloads of `rendering` may take, at most `LONGEST_SECONDS`.

    A Deployment is given its progress deadline for every replica: whole-node workers are replaced one after the other.
    """
    scaled = {
        (entry["metadata"]["namespace"], entry["spec"]["scaleTargetRef"]["name"]): entry["spec"][
            "maxReplicaCount"
        ]
        for entry in rendering.objects
        if entry["kind"] == "ScaledObject"
    }
    given = (_seconds(entry, scaled) for entry in rendering.objects)
    return min(max(given, default=0) + _MARGIN_SECONDS, LONGEST_SECONDS)


def _requirement(entry: Mapping[str, Any]) -> Iterator[Requirement]:
    metadata = entry["metadata"]
    match entry["kind"]:
        case "Deployment" | "DaemonSet" | "StatefulSet" as kind:
            yield Rollout(kind=kind.lower(), namespace=metadata["namespace"], name=metadata["name"])
        case "Job":
            yield JobComplete(namespace=metadata["namespace"], name=metadata["name"])
        case "InferenceEndpointConfig":
            group, _, version = entry["apiVersion"].partition("/")
            yield ResourceState(
                group=group,
                version=version,
                plural="inferenceendpointconfigs",
                namespace=metadata["namespace"],
                name=metadata["name"],
                complete="DeploymentComplete",
                failed="DeploymentFailed",
            )


def _seconds(entry: Mapping[str, Any], scaled: Mapping[tuple[str, str], int]) -> int:
    spec = entry.get("spec", {})
    match entry["kind"]:
        case "Deployment":
            name = (entry["metadata"]["namespace"], entry["metadata"]["name"])
            replicas = scaled.get(name, spec.get("replicas", 1))
            return int(spec.get("progressDeadlineSeconds", _PROGRESS_SECONDS) * replicas)
        case "Job":
            return int(spec.get("activeDeadlineSeconds", _JOB_SECONDS))
        case "InferenceEndpointConfig":
            return int(spec.get("maxDeployTimeInSeconds", _OPERATOR_SECONDS))
    return 0
