"""DPD-LINT-313: memory holds devices and shared memory."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, Pod, fault
from hyperpod_dpd.lint.quantity import gib
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.rules.serving.dpd_srv_313 import least_memory_gib


@manifest_rule(
    "DPD-LINT-313",
    severity=Severity.ERROR,
    title="a worker's memory limit holds shared memory and 128 GiB per 32 EFA devices",
    sources=("aws-samples/awsome-inference PR 71",),
    facts=("E13",),
)
def memory_holds_devices_and_shm(manifests: ManifestSet) -> Iterator[Fault]:
    """A worker with less is killed while libfabric enumerates its devices."""
    for worker in manifests.handing_over:
        limit = worker.quantity("limits", "memory")
        given = gib(limit)
        if worker.pod is None or limit is None or given is None or not worker.efa_devices:
            continue
        shared = _shared_gib(worker.pod)
        needed = least_memory_gib(shared, worker.efa_devices)
        if given < needed:
            yield fault(
                limit,
                says=f"{worker} has too little memory for its devices",
                given=f"`memory: {limit.shown()}`",
                computed=f"{shared} GiB shared memory and {worker.efa_devices} EFA devices",
                limit=f"{needed} GiB",
                fix=f"set `memory: {needed}Gi` at least",
            )


def _shared_gib(pod: Pod) -> int:
    """Return the size of the volumes in memory: what they hold counts as the container's memory."""
    volumes = pod.node.get("volumes")
    sizes = (
        gib(volume.get("emptyDir", "sizeLimit"))
        for volume in (() if volumes is None else volumes.items)
        if volume.text_at("emptyDir", "medium") == "Memory"
    )
    return sum(-(-int(size) // 1) for size in sizes if size is not None)
