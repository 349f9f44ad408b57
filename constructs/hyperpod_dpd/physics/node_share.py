"""CPU and memory that a worker may ask of its node."""

from typing import Literal

from hyperpod_dpd.catalog.instances import InstanceType
from hyperpod_dpd.catalog.node_reserve import NODE_RESERVE, NodeReserve
from hyperpod_dpd.spec.value import record


@record
class NodeShare:
    """A worker's share of a node, below what the node can allocate."""

    cpus: int
    memory_gib: int


def node_share(
    instance: InstanceType,
    gpus: int,
    threads_per_core: Literal[1, 2],
    reserve: NodeReserve = NODE_RESERVE,
) -> NodeShare:
    """Return the share of a worker with `gpus` GPUs: as much of the node as it takes of the GPUs, rounded down.

    Raises:
        ValueError: the node does not have that many GPUs, or none are asked for.
    """
    if not 1 <= gpus <= instance.gpus:
        raise ValueError(
            f"`{instance.name}` has {instance.gpus} GPUs, given {gpus}. help: use 1 to {instance.gpus}"
        )
    vcpus = instance.vcpus * threads_per_core // 2
    return NodeShare(
        cpus=int((vcpus - reserve.vcpus) * gpus / instance.gpus),
        memory_gib=int(instance.memory_gib * (1 - reserve.memory_share) * gpus / instance.gpus),
    )
