"""DPD-EKS-029 (recorded): only the needed parts of the dependencies chart are on."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-EKS-029",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="the dependencies chart installs health agent, deep health check, restart and patching, and the two plugins",
    why="Its cert-manager would collide with the add-on of the same name, and its training operators serve nobody "
    "here; device plugins crash-loop on node types outside their affinity lists, which name P5, P5e and P5en.",
    sources=("aws/sagemaker-hyperpod-cli #95, #367, #48, PR 263, PR 447",),
    facts=("P11", "P12", "P13"),
)
