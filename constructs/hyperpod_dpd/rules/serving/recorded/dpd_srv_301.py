"""DPD-SRV-301: EFA devices are asked for wherever EFA is used."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-301",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="`vpc.amazonaws.com/efa` is in requests and limits of every worker that hands over",
    why="Without the devices libfabric falls back to TCP, and nothing says so.",
    sources=("aws/sagemaker-hyperpod-cli issue 306", "awslabs/ai-on-sagemaker-hyperpod PR 134"),
    facts=("E1", "E2"),
)
