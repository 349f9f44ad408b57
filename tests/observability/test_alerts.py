"""Every alert fires where it must, with its numbers, and is silent beside it: Prometheus itself evaluates it."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.observability.rules import Alert, Group, definition, rule_groups
from hyperpod_dpd.spec import Deployment, Scaling
from tests.observability.cases import CASES, HEALTHY, NAME, OPERATOR_CASES, Case
from tests.support.deployments import changed, ready
from tests.support.prometheus import unit_test


@cache
def variants() -> Mapping[str, tuple[Group, ...]]:
    """Return the rules of deployments that differ in what their alerts say."""
    p5 = ready()
    return {
        "default": rule_groups(p5),
        "baseline": rule_groups(p5, disaggregates=False),
        "two decoders": rule_groups(two_decoders(p5)),
        "scaled": rule_groups(scaled(p5)),
        "mixed traffic": rule_groups(changed(p5, traffic__long_share=0.5)),
        "own exporters": rule_groups(changed(p5, platform__exporters="manifests")),
        "operator": rule_groups(on_backend(p5, "operator")),
    }


def two_decoders(deployment: Deployment) -> Deployment:
    return changed(deployment, hyperpod__instance_groups__1__count=2, serving__decode__replicas=2)


def scaled(deployment: Deployment) -> Deployment:
    """Return two to three decoders, of which autoscaling takes one away when there is little to do."""
    return changed(
        deployment,
        hyperpod__instance_groups__1__count=3,
        serving__decode__replicas=3,
        serving__decode__scaling=Scaling(minimum=2, maximum=3),
    )


def alert(case: Case) -> Alert:
    (found,) = (
        each for group in variants()[case.variant] for each in group.alerts if each.name == case.alert
    )
    return found


def inputs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"series": name, "values": samples} for name, samples in values.items()]


def fires(case: Case) -> dict[str, Any]:
    wanted = alert(case)
    return {
        "interval": case.interval,
        "input_series": inputs(case.fires),
        "alert_rule_test": [
            {
                "eval_time": case.at,
                "alertname": case.alert,
                "exp_alerts": [
                    {
                        "exp_labels": {
                            **case.labels,
                            "deployment": NAME,
                            "severity": wanted.severity.value,
                        },
                        "exp_annotations": {
                            "summary": case.summary,
                            "description": wanted.description,
                            "runbook_url": wanted.runbook,
                        },
                    }
                ],
            }
        ],
    }


def silent(case: Case) -> dict[str, Any]:
    return {
        "interval": case.interval,
        "input_series": inputs(case.silent),
        "alert_rule_test": [{"eval_time": case.at, "alertname": case.alert, "exp_alerts": []}],
    }


def group_of(case: Case) -> str:
    return next(
        group.name
        for group in variants()[case.variant]
        if any(each.name == case.alert for each in group.alerts)
    )


def rules_for(variant: str, group: str) -> str:
    """Return one group and the recordings that its alerts may read: the others would only take time."""
    wanted = {"dpd-recordings", group}
    return definition((each for each in variants()[variant] if each.name in wanted), deployment=ready())


ALL = (*CASES, *OPERATOR_CASES)


@pytest.mark.parametrize(("variant", "group"), sorted({(case.variant, group_of(case)) for case in ALL}))
def test_every_alert_fires_with_its_numbers_and_is_silent_beside_it(
    variant: str, group: str, tmp_path: Path
) -> None:
    cases = [case for case in ALL if (case.variant, group_of(case)) == (variant, group)]
    tests = [test for case in cases for test in (fires(case), silent(case))]
    assert unit_test(rules_for(variant, group), tests, tmp_path) == ""


def test_nothing_fires_in_an_hour_without_a_fault(tmp_path: Path) -> None:
    nothing: list[dict[str, Any]] = [
        {"expr": 'ALERTS{alertstate="firing"}', "eval_time": time, "exp_samples": []}
        for time in ("5m", "15m", "30m", "1h")
    ]
    test = {"interval": "30s", "input_series": inputs(HEALTHY), "promql_expr_test": nothing}
    assert unit_test(definition(variants()["default"], deployment=ready()), [test], tmp_path) == ""


def test_the_tests_can_fail(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.alert == "DpdPairBroken")
    swapped = fires(case)
    swapped["input_series"] = inputs(case.silent)
    assert "DpdPairBroken" in unit_test(rules_for("default", group_of(case)), [swapped], tmp_path)


def test_every_alert_of_every_variant_has_a_case() -> None:
    alerts = {each.name for groups in variants().values() for group in groups for each in group.alerts}
    assert {case.alert for case in CASES} == alerts
