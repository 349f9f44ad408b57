"""DPD-LINT-309: shared memory between processes is off."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.words import FALSE
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-309",
    severity=Severity.ERROR,
    title="`FI_EFA_ENABLE_SHM_TRANSFER` is not switched on",
    sources=("ai-dynamo/dynamo PR 9712",),
    facts=("E8",),
)
def shm_transfer_is_off(manifests: ManifestSet) -> Iterator[Fault]:
    """Libfabric's shared-memory path corrupts GPU buffers under load."""
    for worker in manifests.handing_over:
        given = worker.environment.get("FI_EFA_ENABLE_SHM_TRANSFER")
        if given is not None and given.value is not None and given.value not in FALSE:
            yield fault(
                given.node,
                says=f"libfabric of {worker} passes GPU buffers through shared memory",
                given=f"`FI_EFA_ENABLE_SHM_TRANSFER: {given.value}`",
                limit='"0"',
                fix='set `FI_EFA_ENABLE_SHM_TRANSFER: "0"`',
            )
