"""DPD-HP-024 (recorded): an image of one's own knows the node."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-HP-024",
    subject=Subject.UNDECIDABLE,
    severity=Severity.WARNING,
    title="NCCL and EFA work inside the worker image on a P5",
    why="With an own image NCCL failed on more than four GPUs and found no socket; only a run on the node shows it, "
    "so the proof job sends a request through a hand-off after each deployment.",
    sources=("awslabs/awsome-distributed-ai #519",),
    facts=("P9",),
)
