"""DPD-SRV-307: workers may lock memory."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-307",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="workers have `IPC_LOCK`, or are privileged when that was acknowledged",
    why="Registering GPU memory with EFA fails without it (`NIXL_ERR_BACKEND`, -12).",
    sources=("ai-dynamo/dynamo issue 8146, PR 8166", "awslabs/awsome-distributed-ai issue 647"),
    facts=("E7",),
)
