"""DPD-SRV-313: memory for enumerating the devices, beside shared memory."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.derive import resolve_or_none
from hyperpod_dpd.physics.node_share import node_share
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES
from hyperpod_dpd.spec import Deployment

GIB_FOR_32_DEVICES: Final = 128


@deployment_rule(
    "DPD-SRV-313",
    severity=Severity.ERROR,
    title="a worker's memory holds shared memory and 128 GiB per 32 EFA devices",
    sources=("aws-samples/awsome-inference PR 71",),
    facts=("E13",),
)
def memory_holds_devices_and_shm(deployment: Deployment) -> Iterator[Problem]:
    """A worker with less is killed while libfabric enumerates its devices."""
    facts = resolve_or_none(deployment)
    if facts is None:
        return
    shared = deployment.serving.shared_memory_gib
    huge_pages_gib = -(-deployment.serving.huge_pages_mib // 1024)
    for role in ROLES:
        place = facts.role(role)
        share = node_share(place.instance, place.gpus, place.group.threads_per_core)
        memory = share.memory_gib - huge_pages_gib
        needed = least_memory_gib(shared, place.efa_devices)
        if memory < needed:
            yield Problem(
                path="serving.shared_memory_gib",
                says=f"a {role.value} worker has too little memory beside /dev/shm",
                given=f"`shared_memory_gib: {shared}`",
                computed=f"{needed} GiB needed with {place.efa_devices} EFA devices",
                limit=f"{memory} GiB: the share of {place.gpus} of {place.instance.gpus} GPUs of "
                f"`{place.instance.name}`",
                fix=f"set `shared_memory_gib` to at most {max(1, shared - (needed - memory))}",
            )


def least_memory_gib(shared_memory_gib: int, efa_devices: int) -> int:
    """Return the memory that a worker needs for its devices beside /dev/shm."""
    return shared_memory_gib + -(-GIB_FOR_32_DEVICES * efa_devices // 32)
