"""DPD-K8S-001: pods are restricted."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-K8S-001",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="everything except the workers passes Pod Security `restricted`; workers have one exception",
    why="`IPC_LOCK` is inert for another user than 0, so workers run as root with that one capability; an "
    "admission policy holds them to it.",
    sources=(
        "Kubernetes Pod Security Standards",
        "NVIDIA/nvcf issue 1354",
    ),
)
