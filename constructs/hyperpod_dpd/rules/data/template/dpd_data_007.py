"""DPD-DATA-007: alert topics are encrypted."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources


@template_rule(
    "DPD-DATA-007",
    severity=Severity.ERROR,
    title="SNS topics and SQS queues are encrypted",
    sources=("checkov CKV_AWS_26", "cdk-nag AwsSolutions-SNS3 and SQS2"),
)
def topics_are_encrypted(template: Template) -> Iterator[Problem]:
    """Alerts carry names of models, tenants and nodes."""
    for logical_id, resource in resources(template, "AWS::SNS::Topic", "AWS::SQS::Queue"):
        given = properties(resource)
        if not (given.get("KmsMasterKeyId") or given.get("SqsManagedSseEnabled") is True):
            yield Problem(
                path=at(logical_id, "Properties.KmsMasterKeyId"),
                says=f"`{logical_id}` ({resource['Type']}) is not encrypted",
                given="no `KmsMasterKeyId`",
                fix="set a KMS key",
            )
