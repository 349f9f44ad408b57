"""Recording and alert rules: one source for Prometheus and for Amazon Managed Service for Prometheus."""

from hyperpod_dpd.observability.rules.groups import rule_groups
from hyperpod_dpd.observability.rules.rule import Alert, Group, Recording, Severity, definition

__all__ = ["Alert", "Group", "Recording", "Severity", "definition", "rule_groups"]
