"""DPD-DATA-006: log groups forget."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources


@template_rule(
    "DPD-DATA-006",
    severity=Severity.ERROR,
    title="log groups have a retention",
    sources=("checkov CKV_AWS_66", "AWS::Logs::LogGroup (kept for ever when absent)"),
)
def log_groups_forget(template: Template) -> Iterator[Problem]:
    """Logs may hold prompts, and what is kept for ever is paid and answered for, for ever."""
    for logical_id, group in resources(template, "AWS::Logs::LogGroup"):
        if "RetentionInDays" not in properties(group):
            yield Problem(
                path=at(logical_id, "Properties.RetentionInDays"),
                says=f"log group `{logical_id}` keeps everything",
                given="no `RetentionInDays`",
                fix="set a retention",
            )
