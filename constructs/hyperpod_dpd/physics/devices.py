"""EFA devices and line rate of a worker's share of a node."""

from hyperpod_dpd.catalog.instances import InstanceType


def efa_devices(instance: InstanceType, gpus: int) -> int:
    """Return the EFA devices that belong to `gpus` GPUs: the `vpc.amazonaws.com/efa` of such a worker.

    Raises:
        ValueError: the node does not have that many GPUs, or none are asked for.
    """
    if not 1 <= gpus <= instance.gpus:
        raise ValueError(
            f"`{instance.name}` has {instance.gpus} GPUs, given {gpus}. help: use 1 to {instance.gpus}"
        )
    return gpus * instance.efa_devices_per_gpu


def line_rate_bytes_per_second(sender: InstanceType, receiver: InstanceType) -> float:
    """Return the line rate between one GPU of each type: each rank's traffic uses its own GPU's devices."""
    return min(sender.efa_bytes_per_second_per_gpu, receiver.efa_bytes_per_second_per_gpu)
