"""DPD-K8S-003: nothing is cut short."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-K8S-003",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="disruption budgets, drain and grace period let the longest generation finish",
    why="A node that is patched or replaced would end answers in the middle otherwise.",
    sources=("Kubernetes documentation, disruptions",),
)
