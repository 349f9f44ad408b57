"""DPD-DATA-005: keys rotate and are not everybody's."""

from collections.abc import Iterator, Mapping
from typing import Any

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, items, properties, resources


@template_rule(
    "DPD-DATA-005",
    severity=Severity.ERROR,
    title="KMS keys rotate, and no policy gives them to everybody",
    sources=("cdk-nag AwsSolutions-KMS5", "cfn-guard kms_no_wildcard_principal", "checkov CKV_AWS_33"),
)
def keys_are_kept(template: Template) -> Iterator[Problem]:
    """A key with principal `*` and no condition decrypts for every account."""
    for logical_id, key in resources(template, "AWS::KMS::Key"):
        given = properties(key)
        if given.get("EnableKeyRotation") is not True:
            yield Problem(
                path=at(logical_id, "Properties.EnableKeyRotation"),
                says=f"key `{logical_id}` does not rotate",
                given=f"`EnableKeyRotation: {given.get('EnableKeyRotation', 'absent')}`",
                fix="set it to true",
            )
        if any(_is_open(statement) for statement in items((given.get("KeyPolicy") or {}).get("Statement"))):
            yield Problem(
                path=at(logical_id, "Properties.KeyPolicy"),
                says=f"key `{logical_id}` is everybody's",
                given="`Principal: *` without a condition",
                fix="name the principals",
            )


def _is_open(statement: Mapping[str, Any]) -> bool:
    principal = statement.get("Principal")
    everybody = principal == "*" or (isinstance(principal, Mapping) and "*" in items(principal.get("AWS")))
    return statement.get("Effect") == "Allow" and everybody and not statement.get("Condition")
