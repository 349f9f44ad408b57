"""DPD-LINT-302: every GPU has its devices."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import EFA, GPU, Fault, ManifestSet, fault
from hyperpod_dpd.physics import efa_devices
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-302",
    severity=Severity.ERROR,
    title="a worker has the EFA devices of its GPUs, and as many GPUs as ranks",
    sources=("Dynamo p5 recipe (TP4 with 16 EFA devices)", "awslabs/awsome-distributed-ai issue 519"),
    facts=("E2",),
)
def devices_follow_from_gpus(manifests: ManifestSet) -> Iterator[Fault]:
    """Each GPU owns its devices: fewer leave bandwidth unused, more leave the pod without a node."""
    for worker in manifests.handing_over:
        ranks, gpus = worker.tensor_parallel, worker.gpus
        pipeline = worker.arguments.number("--pipeline-parallel-size") or 1
        if ranks is not None and gpus != ranks * pipeline:
            yield fault(
                worker.quantity("limits", GPU) or worker.resources or worker.node,
                says=f"{worker} has not one GPU per rank",
                given=f"`{GPU}: {gpus}`",
                limit=f"{ranks * pipeline}: `--tensor-parallel-size`",
                fix=f"set `{GPU}: {ranks * pipeline}`",
            )
        if worker.operator or worker.instance is None or not worker.efa_devices or gpus < 1:
            continue
        if gpus > worker.instance.gpus:
            yield fault(
                worker.quantity("limits", GPU) or worker.node,
                says=f"{worker} needs more GPUs than a node has",
                given=f"`{GPU}: {gpus}`",
                limit=f"{worker.instance.gpus} on `{worker.instance.name}`",
                fix="lower `--tensor-parallel-size`",
            )
            continue
        wanted = efa_devices(worker.instance, gpus)
        if worker.efa_devices != wanted:
            yield fault(
                worker.quantity("limits", EFA) or worker.node,
                says=f"{worker} has not the EFA devices of its GPUs",
                given=f"`{EFA}: {worker.efa_devices}`",
                computed=f"{gpus} GPUs × {worker.instance.efa_devices_per_gpu} devices on `{worker.instance.name}`",
                limit=str(wanted),
                fix=f"set `{EFA}: {wanted}`",
            )
