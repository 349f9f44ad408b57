"""DPD-LINT-316: libfabric's default for shared memory is not relied upon."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-316",
    severity=Severity.WARNING,
    title="`FI_EFA_ENABLE_SHM_TRANSFER` is given where EFA devices are",
    sources=("ai-dynamo/dynamo PR 9712",),
    facts=("E8",),
)
def shm_transfer_is_said(manifests: ManifestSet) -> Iterator[Fault]:
    """Libfabric's shared-memory path is on by default, and corrupts GPU buffers under load."""
    for worker in manifests.handing_over:
        if worker.operator or not worker.efa_devices or "FI_EFA_ENABLE_SHM_TRANSFER" in worker.environment:
            continue
        yield fault(
            worker.node,
            says=f"libfabric of {worker} may pass GPU buffers through shared memory",
            given="no `FI_EFA_ENABLE_SHM_TRANSFER`",
            limit='"0"',
            fix='set `FI_EFA_ENABLE_SHM_TRANSFER: "0"`',
        )
