"""DPD-SRV-309: no device of the host is mounted."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-309",
    subject=Subject.NOT_EXPRESSIBLE,
    severity=Severity.ERROR,
    title="`/dev/infiniband` is never a hostPath",
    why="It breaks EFA; the device plugin injects the devices. The specification has no hostPath, and the admission "
    "policy of the workers' namespace refuses one.",
    sources=("aws-samples/aws-do-eks PR 63",),
    facts=("E9",),
)
