"""Every rule lets its good cases through and finds its bad ones."""

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from hyperpod_dpd.rules import Problem, Rule, Subject, check, check_template, rules
from hyperpod_dpd.rules.registry import DeploymentCheck, TemplateCheck
from hyperpod_dpd.spec.load import load
from tests.unit.rules.example import Bad, Example, default_data, deployment

_ROOT = Path(__file__).parents[3]
_FOLDER = Path(__file__).parent / "examples"
_DEPLOYMENTS = sorted((_ROOT / "deployments").glob("*.yaml"))


def _examples() -> Iterator[tuple[str, Example]]:
    for module in pkgutil.iter_modules([str(_FOLDER)]):
        for example in importlib.import_module(f"tests.unit.rules.examples.{module.name}").EXAMPLES:
            yield module.name, example


_EXAMPLES = list(_examples())
_AREAS = {area for area, _ in _EXAMPLES}


def _area(rule: Rule) -> str:
    return {"NET": "network", "EKS": "cluster", "HP": "hyperpod", "DATA": "data", "SPEC": "spec"}.get(
        rule.id.split("-")[1], "kubernetes" if "-K8S-" in rule.id else "serving"
    )


def _problems(rule_id: str, case: Mapping[str, Any]) -> list[Problem]:
    rule = rules()[rule_id]
    if rule.subject is Subject.TEMPLATE:
        return list(cast(TemplateCheck, rule.check)(case))
    return list(cast(DeploymentCheck, rule.check)(deployment(case)))


@pytest.fixture(autouse=True)
def day_of_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge dates on 2026-11-30: time alone must not turn an old commit red."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1796000000")


@pytest.mark.parametrize(
    ("rule", "case"),
    [(example.rule, case) for _, example in _EXAMPLES for case in example.good],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_good_case_passes(rule: str, case: Mapping[str, Any]) -> None:
    assert _problems(rule, case) == []


@pytest.mark.parametrize(
    ("rule", "bad"),
    [(example.rule, bad) for _, example in _EXAMPLES for bad in example.bad],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_case_is_found_and_nothing_beside_it(rule: str, bad: Bad) -> None:
    problems = _problems(rule, bad.case)
    assert sorted(problem.path for problem in problems) == sorted((bad.at, *bad.besides))
    found = [problem for problem in problems if problem.path == bad.at]
    text = " ".join(
        f"{problem.says} {problem.given} {problem.computed} {problem.limit} {problem.fix}"
        for problem in found
    )
    for word in bad.mentions:
        assert word in text


@pytest.mark.parametrize("area", sorted(_AREAS))
def test_no_rule_stumbles_over_what_another_one_finds(area: str) -> None:
    """A deployment with a value that one rule refuses goes through all of them, and the finding is among theirs."""
    for example in (example for place, example in _EXAMPLES if place == area):
        for bad in example.bad:
            assert example.rule in _said(example.rule, bad.case), (example.rule, bad.at)


def _said(rule_id: str, case: Mapping[str, Any]) -> set[str]:
    if rules()[rule_id].subject is Subject.TEMPLATE:
        return {finding.rule for finding in check_template(case)}
    report = check(deployment(case))
    return {finding.rule for finding in (*report.findings, *report.acknowledged)}


def test_every_checked_rule_has_a_good_and_a_bad_case() -> None:
    complete = {example.rule for _, example in _EXAMPLES if example.good and example.bad}
    complete.add("DPD-SPEC-001")  # only Python code can break it: test_built_in_python.py
    checked = {
        rule.id
        for rule in rules().values()
        # rules about manifests have theirs in tests/unit/lint
        if rule.check is not None and _area(rule) in _AREAS and rule.subject is not Subject.MANIFEST
    }
    assert checked <= complete, f"without examples: {sorted(checked - complete)}"


def test_examples_are_of_rules_that_exist() -> None:
    assert {example.rule for _, example in _EXAMPLES} <= rules().keys()


@pytest.mark.parametrize("path", _DEPLOYMENTS, ids=lambda path: path.stem)
def test_shipped_deployment_is_clean(path: Path) -> None:
    report = check(load(path).deployment)
    assert [str(finding) for finding in report.findings] == []
    assert "DPD-EKS-001" in {finding.rule for finding in report.acknowledged}


def test_every_pitfall_of_the_platform_is_covered() -> None:
    covered = {fact for rule in rules().values() for fact in rule.facts}
    assert {f"P{number}" for number in range(1, 33)} <= covered


def test_every_rule_has_a_file_of_its_name_where_its_subject_belongs() -> None:
    folders = {Subject.DEPLOYMENT: (), Subject.TEMPLATE: ("template",), Subject.MANIFEST: ("manifest",)}
    for rule in rules().values():
        stem = rule.id.lower().replace("-", "_")
        (file,) = (_ROOT / "constructs/hyperpod_dpd/rules").glob(f"**/{stem}.py")
        below_area = file.parent.relative_to(_ROOT / "constructs/hyperpod_dpd/rules").parts[1:]
        assert below_area == folders.get(rule.subject, ("recorded",)), rule.id


def test_checking_a_deployment_loads_rules_about_deployments_only() -> None:
    code = (
        "import sys; from hyperpod_dpd import check, load\n"
        f"report = check(load({str(_DEPLOYMENTS[0])!r}).deployment)\n"
        "print([name for name in sys.modules if name.startswith('hyperpod_dpd.lint')\n"
        "       or any(f'.{folder}.dpd_' in name for folder in ('template', 'recorded', 'manifest'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_problems_of_the_default_deployment_read_as_sentences() -> None:
    """Headlines are lower case and carry no full stop of their own; help does not end in one either."""
    for _, example in _EXAMPLES:
        for bad in example.bad:
            for problem in _problems(example.rule, bad.case):
                assert (
                    problem.says[0] == "`"
                    or problem.says[0].islower()
                    or problem.says.startswith(
                        ("CoreDNS", "EKS", "EFA", "HyperPod", "VPC", "CloudWatch", "Kubernetes", "SNS")
                    )
                ), problem.says
                assert not problem.says.endswith("."), problem.says
                assert problem.fix, problem
                assert not problem.fix.endswith("."), problem.fix


def test_examples_start_from_an_unchanged_default() -> None:
    assert default_data() == default_data()
    assert deployment({}).name == "llama-3-3-70b-p5"
