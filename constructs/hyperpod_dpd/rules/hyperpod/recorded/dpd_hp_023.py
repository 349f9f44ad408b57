"""DPD-HP-023 (recorded): the lifecycle script needs nothing from the internet."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-HP-023",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="the lifecycle script is self-contained and uploaded as a folder",
    why="Clusters failed when GitHub was down and when only one of two script files was uploaded; ours is one folder "
    "that downloads nothing, and its tests run it.",
    sources=("awslabs/awsome-distributed-ai #188, #186, PR 918, PR 927",),
    facts=("P4", "P5"),
)
