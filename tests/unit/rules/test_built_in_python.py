"""A deployment that Python code builds is held to the same types and ranges as a file."""

from dataclasses import replace
from typing import Any, cast

import pytest

from hyperpod_dpd.rules import DeploymentRefusedError, Finding, check, refuse_unless_valid
from hyperpod_dpd.spec import Deployment, Role, Slo, Traffic
from tests.unit.rules.example import deployment

_RULE = "DPD-SPEC-001"


def _found(value: Deployment) -> list[Finding]:
    return [finding for finding in check(value).findings if finding.rule == _RULE]


def _with_group(**changes: Any) -> Deployment:
    base = deployment({})
    prefill, decode = base.hyperpod.instance_groups
    groups = (replace(prefill, **changes), decode)
    return replace(base, hyperpod=replace(base.hyperpod, instance_groups=groups))


def test_value_in_range_passes() -> None:
    assert _found(replace(deployment({}), slo=Slo(ttft_p95_seconds=1.5))) == []


@pytest.mark.parametrize(
    ("changes", "path", "mentions"),
    [
        ({"count": -1}, "hyperpod.instance_groups[0].count", "at least 0"),
        ({"count": "2"}, "hyperpod.instance_groups[0].count", 'given `"2"`'),
        ({"count": True}, "hyperpod.instance_groups[0].count", "whole number"),
        ({"role": "prefill"}, "hyperpod.instance_groups[0].role", "Role"),
        ({"volume_gib": 20_000}, "hyperpod.instance_groups[0].volume_gib", "at most 16384"),
        (
            {"deep_health_checks": ["InstanceStress"]},
            "hyperpod.instance_groups[0].deep_health_checks",
            "tuple",
        ),
    ],
)
def test_value_out_of_range_is_a_finding(changes: dict[str, Any], path: str, mentions: str) -> None:
    found = _found(_with_group(**changes))
    assert [finding.problem.path for finding in found] == [path]
    assert mentions in found[0].message


def test_every_value_out_of_range_is_found_at_once() -> None:
    value = replace(deployment({}), slo=Slo(error_ratio=2), traffic=Traffic(input_tokens=0), name="x" * 41)
    paths = {finding.problem.path for finding in _found(value)}
    assert paths == {"slo.error_ratio", "traffic.input_tokens", "name"}


def test_missing_value_object_is_a_finding_and_stops_nothing() -> None:
    value = replace(deployment({}), slo=cast(Slo, None))
    assert [finding.problem.path for finding in _found(value)] == ["slo"]


def test_value_of_another_type_is_said_alone_because_rules_could_not_use_it() -> None:
    value = replace(_with_group(count="2"), region="mars-1")
    assert {finding.rule for finding in check(value).findings if finding.rule != "DPD-ACK-002"} == {_RULE}


def test_refusal_carries_every_error() -> None:
    value = replace(_with_group(role=Role.DECODE, placement_group="pg"), region="mars-1")
    with pytest.raises(DeploymentRefusedError) as refusal:
        refuse_unless_valid(value)
    for rule in ("DPD-SPEC-003", "DPD-HP-002", "DPD-HP-007"):
        assert rule in str(refusal.value)
