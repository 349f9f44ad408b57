"""DPD-LINT-315: ranks share enough memory."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.words import is_true
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-315",
    severity=Severity.WARNING,
    title="a worker of several ranks has a /dev/shm in memory",
    sources=(
        "Kubernetes: a container's /dev/shm has 64 MiB unless a volume in memory is mounted there",
        "Dynamo EFA guide (80 GiB)",
    ),
    facts=("E13",),
)
def shm_is_large_enough(manifests: ManifestSet) -> Iterator[Fault]:
    """The ranks exchange data through /dev/shm; 64 MiB end NCCL with a bus error."""
    for worker in manifests.workers:
        if worker.pod is None or (worker.tensor_parallel or 1) < 2:
            continue
        mounts = worker.node.get("volumeMounts")
        names = [
            mount.text_at("name")
            for mount in (() if mounts is None else mounts.items)
            if (mount.text_at("mountPath") or "").rstrip("/") == "/dev/shm"  # noqa: S108
        ]
        volumes = worker.pod.node.get("volumes")
        in_memory = any(
            volume.text_at("name") in names and volume.text_at("emptyDir", "medium") == "Memory"
            for volume in (() if volumes is None else volumes.items)
        )
        if not in_memory and not is_true(worker.pod.node.get("hostIPC")):
            yield fault(
                mounts or worker.node,
                says=f"shared memory of {worker} has 64 MiB",
                given="no `emptyDir` with `medium: Memory` at `/dev/shm`",
                fix="mount one, and count it into the memory limit",
            )
