"""DPD-EKS-027: node groups are amd64 and have no SSH."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.system_nodes import is_arm
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, items, properties, resources


@template_rule(
    "DPD-EKS-027",
    severity=Severity.ERROR,
    title="node groups are amd64 and reachable through Systems Manager only",
    sources=("aws/sagemaker-hyperpod-cli PR 427", "checkov CKV_AWS_100"),
    facts=("P14",),
)
def node_groups_are_plain(template: Template) -> Iterator[Problem]:
    """The operator's image crashes on ARM; SSH opens port 22 to everybody unless groups are named."""
    for logical_id, group in resources(template, "AWS::EKS::Nodegroup"):
        given = properties(group)
        arm = [str(name) for name in items(given.get("InstanceTypes")) if is_arm(str(name))]
        if arm or "ARM" in str(given.get("AmiType")):
            yield Problem(
                path=at(logical_id, "Properties"),
                says=f"node group `{logical_id}` is ARM",
                given=f"`AmiType: {given.get('AmiType')}`, `InstanceTypes: {arm}`",
                fix="use an amd64 type and image",
            )
        if "RemoteAccess" in given:
            yield Problem(
                path=at(logical_id, "Properties.RemoteAccess"),
                says=f"node group `{logical_id}` has SSH",
                given="`RemoteAccess`",
                fix="remove it and use Systems Manager",
            )
