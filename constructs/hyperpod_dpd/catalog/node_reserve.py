"""What a GPU node keeps for itself: kubelet, kernel, agents and DaemonSets."""

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record


@record
class NodeReserve:
    """CPU and memory of a node that no worker may ask for."""

    vcpus: int
    """vCPUs of the whole node."""

    memory_share: float
    """Share of the nominal memory."""

    source: Source


NODE_RESERVE = NodeReserve(
    vcpus=16,
    memory_share=1 / 8,
    source=Source(
        text="a 2 TiB node reports some 2 % less than its nominal memory; EKS keeps 255 MiB and 11 MiB a pod; health, "
        "device, metrics and log agents take the rest. Between this and AWS's own example (96 vCPUs and 1,024 GiB of "
        "a p5) no figure is published",
        as_of="2026-11-30",
        confirmed=False,
    ),
)
