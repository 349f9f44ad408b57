"""Recording and alert rules: one source for Prometheus and for Amazon Managed Service for Prometheus."""

from hyperpod_dpd.observability.rules.alerts import ABOUT_MISSING_WORKERS
from hyperpod_dpd.observability.rules.groups import rule_groups
from hyperpod_dpd.observability.rules.rule import Alert, Group, Recording, Severity, definition

__all__ = [
    "ABOUT_MISSING_WORKERS",
    "Alert",
    "Group",
    "Recording",
    "Severity",
    "definition",
    "rule_groups",
]
