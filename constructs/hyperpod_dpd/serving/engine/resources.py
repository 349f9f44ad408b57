"""What a worker asks of its node, and where it may write."""

import math
from typing import Final

from hyperpod_dpd.derive import RoleFacts, ServingFacts
from hyperpod_dpd.physics import GIB
from hyperpod_dpd.physics.node_share import node_share
from hyperpod_dpd.serving.engine.environment import CACHE_DIRECTORY
from hyperpod_dpd.serving.engine.values import Resources, ScratchDirectory
from hyperpod_dpd.serving.names import STATE_DIRECTORY
from hyperpod_dpd.spec import Deployment, HuggingFaceSource, Role, S3Source

SCRATCH_GIB: Final = 50
"""Room for compiled kernels, logs and temporary files of one worker."""


def resources(deployment: Deployment, facts: ServingFacts, place: RoleFacts, role: Role) -> Resources:
    """Return what a worker of `role` on the nodes of `place` asks for.

    A colocated worker exchanges nothing, so it takes no EFA device.
    """
    colocated = role is Role.COLOCATED
    gpus = facts.tensor_parallel if colocated else place.gpus
    share = node_share(place.instance, gpus, place.group.threads_per_core)
    huge_pages_mib = 0 if colocated else deployment.serving.huge_pages_mib
    return Resources(
        gpus=gpus,
        efa_devices=0 if colocated else place.efa_devices,
        cpus=share.cpus,
        memory_gib=share.memory_gib - math.ceil(huge_pages_mib / 1024),
        huge_pages_mib=huge_pages_mib,
        shared_memory_gib=deployment.serving.shared_memory_gib,
        ephemeral_storage_gib=SCRATCH_GIB + _copied_weights_gib(deployment, facts),
    )


def scratch_directories(deployment: Deployment) -> tuple[ScratchDirectory, ...]:
    """Return the writable directories of a worker."""
    return (
        ScratchDirectory(name="state", path=STATE_DIRECTORY),
        ScratchDirectory(name="cache", path=CACHE_DIRECTORY),
        ScratchDirectory(name="tmp", path="/tmp"),  # noqa: S108
        ScratchDirectory(
            name="shm",
            path="/dev/shm",  # noqa: S108
            in_memory=True,
            size_gib=deployment.serving.shared_memory_gib,
        ),
    )


def _copied_weights_gib(deployment: Deployment, facts: ServingFacts) -> int:
    match deployment.model.source:
        case HuggingFaceSource() | S3Source(delivery="sync"):
            return math.ceil(facts.weights_bytes_per_rank * facts.tensor_parallel / GIB)
        case _:
            return 0
