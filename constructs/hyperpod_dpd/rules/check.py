"""Run every rule over a deployment or a template and settle the acknowledgements."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from hyperpod_dpd.rules.finding import Finding, Problem, Severity
from hyperpod_dpd.rules.registry import DeploymentCheck, Rule, Subject, TemplateCheck, rules, rules_about
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import record
from hyperpod_dpd.spec.violation import close_to

UNKNOWN_ACKNOWLEDGEMENT = "DPD-ACK-001"
UNUSED_ACKNOWLEDGEMENT = "DPD-ACK-002"
ERROR_ACKNOWLEDGED = "DPD-ACK-003"
ACKNOWLEDGED_TWICE = "DPD-ACK-004"
RETENTION_RULE = "DPD-DATA-003"
VALUES_RULE = "DPD-SPEC-001"


@record
class Report:
    """Everything that the rules found."""

    findings: tuple[Finding, ...]
    """Errors, and warnings that nobody has acknowledged."""

    acknowledged: tuple[Finding, ...]
    """Warnings that the deployment file accepts."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that refuse the deployment."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that somebody has to acknowledge or mend."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)

    @property
    def clean(self) -> bool:
        """Whether nothing is left to mend or to acknowledge."""
        return not self.findings


class DeploymentRefusedError(ValueError):
    """The rules found errors; the message holds every one of them.

    Attributes:
        report: everything that they found.
    """

    report: Report

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__("\n".join(str(finding) for finding in report.errors))


@checked
def check(deployment: Deployment) -> Report:
    """Run every rule about deployments over `deployment`.

    Never raises for a bad deployment: all findings come back at once. Values of a wrong type or out of range, which
    only Python code can give, come back alone.

    Example:
        $ python -c "from hyperpod_dpd import check, load; print(check(load('deployment.yaml').deployment).errors)"
    """
    # A value of the wrong type would break other rules: as with a file, what cannot be read is said first and alone.
    found = _found(deployment, (rule for rule in rules_about(Subject.DEPLOYMENT) if rule.id == VALUES_RULE))
    if not found:
        found = _found(deployment, rules_about(Subject.DEPLOYMENT))
    return _settle(deployment, found)


def _found(deployment: Deployment, chosen: Iterable[Rule]) -> list[Finding]:
    return [
        Finding(rule=rule.id, severity=rule.severity, problem=problem)
        for rule in chosen
        for problem in cast(DeploymentCheck, rule.check)(deployment)
    ]


@checked
def refuse_unless_valid(deployment: Deployment) -> Report:
    """Return the report of `check`.

    Raises:
        DeploymentRefusedError: a rule of severity error found something.
    """
    report = check(deployment)
    if report.errors:
        raise DeploymentRefusedError(report)
    return report


@checked
def check_template(template: Mapping[str, Any], *, deletes_data: bool = False) -> tuple[Finding, ...]:
    """Run every rule about CloudFormation templates over `template`.

    Args:
        template: A synthesized template as plain data.
        deletes_data: Whether the deployment's two removal acts were done (`Deployment.deletes_data`); stateful
            resources may then go with their stack.
    """
    return tuple(
        Finding(rule=rule.id, severity=rule.severity, problem=problem)
        for rule in rules_about(Subject.TEMPLATE)
        if not (deletes_data and rule.id == RETENTION_RULE)
        for problem in cast(TemplateCheck, rule.check)(template)
    )


def _settle(deployment: Deployment, found: Sequence[Finding]) -> Report:
    accepted = {entry.rule for entry in deployment.acknowledge}
    warned = {finding.rule for finding in found if finding.severity is Severity.WARNING}
    open_findings = [finding for finding in found if finding.rule not in warned & accepted]
    open_findings += _acknowledgement_findings(deployment, warned)
    acknowledged = tuple(finding for finding in found if finding.rule in warned & accepted)
    return Report(findings=tuple(open_findings), acknowledged=acknowledged)


def _acknowledgement_findings(deployment: Deployment, warned: set[str]) -> list[Finding]:
    findings = []
    for index, entry in enumerate(deployment.acknowledge):
        trouble = _trouble(deployment, index, warned)
        if trouble is not None:
            identifier, says, fix = trouble
            findings.append(
                Finding(
                    rule=identifier,
                    severity=Severity.ERROR,
                    problem=Problem(
                        path=f"acknowledge[{index}].rule", says=says, given=f"`rule: {entry.rule}`", fix=fix
                    ),
                )
            )
    return findings


def _trouble(deployment: Deployment, index: int, warned: set[str]) -> tuple[str, str, str] | None:
    """Return rule id, headline and fix of what is wrong with one acknowledgement."""
    given = deployment.acknowledge[index].rule
    if given in {earlier.rule for earlier in deployment.acknowledge[:index]}:
        return ACKNOWLEDGED_TWICE, "a warning is acknowledged twice", "keep the reason that still holds"
    if given in warned:
        return None
    rule = rules().get(given)
    if rule is None:
        return (
            UNKNOWN_ACKNOWLEDGEMENT,
            "acknowledgement of an unknown rule",
            close_to(given, list(rules())) or "`dpd explain` lists all rules",
        )
    if rule.severity is Severity.ERROR:
        return (
            ERROR_ACKNOWLEDGED,
            "an error cannot be acknowledged",
            f"mend what `dpd explain {given}` describes",
        )
    return (
        UNUSED_ACKNOWLEDGEMENT,
        "acknowledgement without a finding",
        "remove it: the warning no longer exists",
    )
