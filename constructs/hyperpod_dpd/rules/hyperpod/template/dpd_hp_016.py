"""DPD-HP-016: the nodes' role may do only what nodes do."""

from collections.abc import Iterator, Mapping
from typing import Any

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, items, properties, resources, target

_UNSCOPED = ("ec2:Describe", "ecr:GetAuthorizationToken", "cloudwatch:DescribeAlarms")
"""Actions that IAM cannot limit to a resource (Service Authorization Reference)."""


@template_rule(
    "DPD-HP-016",
    severity=Severity.ERROR,
    title="the execution role has no wildcard action, and every resource only where IAM knows no other",
    sources=(
        "cdk-nag AwsSolutions-IAM5",
        "aws/sagemaker-hyperpod-cluster-setup sagemaker-iam-role-template.yaml",
    ),
)
def execution_role_is_narrow(template: Template) -> Iterator[Problem]:
    """Every container that reaches the node's credentials has this role."""
    for policy_id, statement in _statements(template, _execution_roles(template)):
        actions = [str(action) for action in items(statement.get("Action"))]
        wide = [action for action in actions if "*" in action]
        unscoped = [
            action
            for action in actions
            if "*" in items(statement.get("Resource")) and not action.startswith(_UNSCOPED)
        ]
        for says, found, fix in (
            ("a wildcard action", wide, "list the actions"),
            ("every resource", unscoped, "name the resources"),
        ):
            if found:
                yield Problem(
                    path=at(policy_id, "Properties.PolicyDocument"),
                    says=f"the execution role allows {says}",
                    given=", ".join(f"`{action}`" for action in found),
                    fix=fix,
                )


def _execution_roles(template: Template) -> set[str | None]:
    return {
        target(group.get("ExecutionRole"))
        for _, cluster in resources(template, "AWS::SageMaker::Cluster")
        for group in properties(cluster).get("InstanceGroups", [])
    } - {None}


def _statements(template: Template, roles: set[str | None]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for logical_id, policy in resources(template, "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        if not roles.isdisjoint(target(role) for role in items(properties(policy).get("Roles"))):
            yield from _allowed(logical_id, properties(policy).get("PolicyDocument"))
    for logical_id, role in resources(template, "AWS::IAM::Role"):
        if logical_id in roles:
            for policy in items(properties(role).get("Policies")):
                yield from _allowed(logical_id, policy.get("PolicyDocument"))


def _allowed(logical_id: str, document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for statement in items((document or {}).get("Statement")):
        if statement.get("Effect") == "Allow":
            yield logical_id, statement
