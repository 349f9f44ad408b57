"""Rules: what must be true of a deployment before a template exists."""

from hyperpod_dpd.rules.check import (
    DeploymentRefusedError,
    Report,
    check,
    check_template,
    refuse_unless_valid,
)
from hyperpod_dpd.rules.finding import Finding, Problem, Severity
from hyperpod_dpd.rules.registry import (
    Rule,
    Subject,
    deployment_rule,
    recorded_rule,
    rules,
    rules_about,
    template_rule,
)

__all__ = [
    "DeploymentRefusedError",
    "Finding",
    "Problem",
    "Report",
    "Rule",
    "Severity",
    "Subject",
    "check",
    "check_template",
    "deployment_rule",
    "recorded_rule",
    "refuse_unless_valid",
    "rules",
    "rules_about",
    "template_rule",
]
