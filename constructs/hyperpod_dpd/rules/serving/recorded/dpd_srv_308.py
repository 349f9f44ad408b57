"""DPD-SRV-308: EFA's shared-memory transfer is off."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-308",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="`FI_EFA_ENABLE_SHM_TRANSFER` is 0",
    why="Shared memory between the ranks of a node corrupts GPU buffers under load.",
    sources=("ai-dynamo/dynamo PR 9712",),
    facts=("E8",),
)
