"""DPD-SRV-102: both roles have as many ranks."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-102",
    subject=Subject.NOT_EXPRESSIBLE,
    severity=Severity.ERROR,
    title="prefill and decode have the same tensor parallelism",
    why="Each rank of the sender writes to the same rank of the receiver. `serving.tensor_parallel` is one number "
    "for both roles.",
    sources=("LMCache/LMCache issues 1142 and 1342, PR 1629 (closed)",),
    facts=("L2",),
)
