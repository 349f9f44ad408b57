"""The project's own template rules: what the public packs cannot see, over every template."""

import pytest

from hyperpod_dpd.rules.check import check_template
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, rules_about
from tests.support.synth import deployments, synthesize

DEPLOYMENTS = deployments()
# a template does not say that its owner did both acts of removal
EXPECTED = {"removable": {"DPD-DATA-003"}}


def test_there_are_template_rules() -> None:
    assert list(rules_about(Subject.TEMPLATE))


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_no_template_violates_a_rule(name: str) -> None:
    findings = [
        finding
        for template in synthesize(DEPLOYMENTS[name]).templates.values()
        for finding in check_template(template)
        if finding.severity is Severity.ERROR
    ]
    expected = EXPECTED.get(name, set())
    assert [str(finding) for finding in findings if finding.rule not in expected] == []
    assert {finding.rule for finding in findings} == expected
