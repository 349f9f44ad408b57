"""DPD-DATA-008: stores that no public rule pack knows are encrypted with a key of the account."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources

_KEY_OF = {
    "AWS::FSx::FileSystem": "KmsKeyId",
    "AWS::EFS::FileSystem": "KmsKeyId",
    "AWS::APS::Workspace": "KmsKeyArn",
}


@template_rule(
    "DPD-DATA-008",
    severity=Severity.ERROR,
    title="file systems and metric workspaces are encrypted with a key of the account",
    sources=("no rule of cdk-nag, checkov or cfn-guard looks at FSx for Lustre or Managed Prometheus",),
)
def stores_have_a_key(template: Template) -> Iterator[Problem]:
    """With AWS's own key nobody in the account decides who decrypts weights and metrics."""
    for logical_id, resource in resources(template, *_KEY_OF):
        key = _KEY_OF[resource["Type"]]
        if not properties(resource).get(key):
            yield Problem(
                path=at(logical_id, f"Properties.{key}"),
                says=f"`{logical_id}` ({resource['Type']}) has no key of the account",
                given=f"no `{key}`",
                fix=f"set `{key}`",
            )
