"""DPD-HP-025 (recorded): huge pages stay away from EFA unless asked for."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-HP-025",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="EFA uses huge pages only where the worker requests them",
    why="Libfabric on huge pages breaks a process that forks; workers switch them off unless "
    "`serving.huge_pages_mib` asks for them.",
    sources=("aws/aws-ofi-nccl PR 292",),
    facts=("P29",),
)
