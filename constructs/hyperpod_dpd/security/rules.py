"""The rules inside somebody's own CDK application: over its deployments, and over its templates."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
from constructs import IConstruct, IValidation

from hyperpod_dpd import _version
from hyperpod_dpd.rules.check import Report, check, check_template
from hyperpod_dpd.rules.finding import Finding, Severity
from hyperpod_dpd.rules.registry import Subject, rules_about
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked

_NAME = "hyperpod-dpd"


@checked
def warning_id(rule: str) -> str:
    """Return the id by which CDK knows a warning of `rule`; it never changes, so that it may be acknowledged."""
    return f"{_NAME}:{rule}"


@checked
def apply_rules(scope: IConstruct, deployment: Deployment) -> Report:
    """Let every rule about deployments judge `deployment` when `scope` is synthesized.

    An error fails the synthesis, together with every other one. A warning that the deployment does not acknowledge
    becomes an annotation with the id `hyperpod-dpd:<rule>`, which
    `Annotations.of(scope).acknowledge_warning(id, reason)` accepts as well.

    Returns:
        What the rules found.
    """
    report = check(deployment)
    if report.errors:
        scope.node.add_validation(_Refusal(report.errors))
    for finding in report.warnings:
        cdk.Annotations.of(scope).add_warning_v2(warning_id(finding.rule), str(finding))
    return report


@jsii.implements(IValidation)
class _Refusal:
    """Errors that CDK reports when it validates the construct."""

    def __init__(self, errors: tuple[Finding, ...]) -> None:
        self._errors = errors

    def validate(self) -> list[str]:
        """Return one message for each error."""
        return [str(finding) for finding in self._errors]


@jsii.implements(cdk.IPolicyValidationPlugin)
class TemplateRules:
    """Runs every rule about templates over every stack of an application.

    The public packs are blind on `aws_eks_v2` and HyperPod, so these rules stand beside cdk-nag, not instead of it:

        cdk.Validations.of(app).add_plugins(TemplateRules())

    A finding of severity error fails the synthesis. CDK names the id with which a finding may be acknowledged.
    """

    @checked
    def __init__(self, *, deletes_data: bool = False) -> None:
        """Create the plug-in.

        Args:
            deletes_data: whether stateful resources may go with their stack, see `Deployment.deletes_data`.
        """
        self._deletes_data = deletes_data

    @property
    def name(self) -> str:
        """Name of the plug-in in CDK's report."""
        return _NAME

    @property
    def version(self) -> str:
        """Version of the library."""
        return _version.__version__

    @property
    def rule_ids(self) -> list[str]:
        """Ids of the rules that are run."""
        return [rule.id for rule in rules_about(Subject.TEMPLATE)]

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        """Return what the rules find in the templates of `context`."""
        found = [
            (path, finding)
            for path in context.template_paths
            for finding in check_template(_read(path), deletes_data=self._deletes_data)
        ]
        return cdk.PolicyValidationPluginReport(
            success=not any(finding.severity is Severity.ERROR for _, finding in found),
            violations=[_violation(path, finding) for path, finding in found],
        )


def _read(path: str) -> Mapping[str, Any]:
    template: Mapping[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return template


def _violation(path: str, finding: Finding) -> cdk.PolicyViolation:
    # a problem's path starts with the logical id, or names a part of the template that has none
    parts = finding.problem.path.removeprefix("Resources.").split(".")
    in_resource = finding.problem.path.startswith("Resources.")
    return cdk.PolicyViolation(
        rule_name=finding.rule,
        description=finding.message,
        severity=finding.severity.value,
        violating_resources=[
            cdk.PolicyViolatingResource(
                resource_logical_id=parts[0] if in_resource else None,
                template_path=path,
                locations=["/".join(parts[1:] if in_resource else parts)],
            )
        ],
    )
