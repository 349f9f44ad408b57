"""What `check` reports, what a refusal says, and which declarations of rules are refused."""

import pytest

from hyperpod_dpd.rules import DeploymentRefusedError, Finding, Problem, Severity, Subject, check, rules
from hyperpod_dpd.rules.check import refuse_unless_valid
from hyperpod_dpd.rules.registry import deployment_rule, recorded_rule
from tests.unit.rules.example import deployment

_ERROR, _WARNING, _ACKNOWLEDGED = "DPD-SRV-107", "DPD-SRV-008", "DPD-EKS-001"
_WARNED = {"traffic.concurrency": 65, "serving.transfer.pd_buffer_gib": 16.0}
_BOTH = {**_WARNED, "serving.transfer.hash_seed": 4294967296}


def _accepting(*names: str) -> dict[str, object]:
    return {"acknowledge": [{"rule": name, "reason": "accepted by a test"} for name in names]}


def test_report_tells_errors_warnings_and_what_is_acknowledged_apart() -> None:
    report = check(deployment(_BOTH))
    assert [finding.rule for finding in report.errors] == [_ERROR]
    assert [finding.rule for finding in report.warnings] == [_WARNING]
    assert [finding.rule for finding in report.acknowledged] == [_ACKNOWLEDGED]
    assert not report.clean
    assert check(deployment({})).clean


@pytest.mark.parametrize(
    ("accepted", "rule", "place", "fix"),
    [
        ((_ACKNOWLEDGED, "DPD-SRV-9"), "DPD-ACK-001", 1, "did you mean"),
        ((_ACKNOWLEDGED, "x"), "DPD-ACK-001", 1, "`dpd explain` lists all rules"),
        ((_ACKNOWLEDGED, _WARNING), "DPD-ACK-002", 1, "remove it"),
        ((_ERROR, _ACKNOWLEDGED), "DPD-ACK-003", 0, f"`dpd explain {_ERROR}`"),
        ((_ACKNOWLEDGED, _ACKNOWLEDGED), "DPD-ACK-004", 1, "keep the reason"),
    ],
)
def test_wrong_acknowledgement_is_an_error_at_its_place(
    accepted: tuple[str, ...], rule: str, place: int, fix: str
) -> None:
    report = check(deployment(_accepting(*accepted)))
    (finding,) = report.errors
    assert (finding.rule, finding.problem.path) == (rule, f"acknowledge[{place}].rule")
    assert finding.problem.given == f"`rule: {accepted[place]}`"
    assert fix in finding.problem.fix
    assert [finding.rule for finding in report.acknowledged] == [_ACKNOWLEDGED]


def test_an_error_stays_one_when_somebody_acknowledges_it() -> None:
    report = check(deployment({**_BOTH, **_accepting(_ACKNOWLEDGED, _WARNING, _ERROR)}))
    assert [finding.rule for finding in report.errors] == [_ERROR, "DPD-ACK-003"]
    assert report.warnings == ()
    assert [finding.rule for finding in report.acknowledged] == [_ACKNOWLEDGED, _WARNING]


def test_refusal_says_the_errors_and_carries_everything() -> None:
    with pytest.raises(DeploymentRefusedError) as refused:
        refuse_unless_valid(deployment(_BOTH))
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"serving.transfer.hash_seed: error: {_ERROR} ")
    assert refused.value.report == check(deployment(_BOTH))


def test_warnings_refuse_nothing() -> None:
    report = refuse_unless_valid(deployment(_WARNED))
    assert [finding.rule for finding in report.findings] == [_WARNING]


_PROBLEM = Problem(path="a.b", says="something is wrong", given="`b: 3`", fix="set `b: 2`")


@pytest.mark.parametrize(
    ("computed", "limit", "between"),
    [
        ("", "", ""),
        ("6 GiB", "", "; computed 6 GiB"),
        ("", "5 GiB", "; limit 5 GiB"),
        ("6 GiB", "5 GiB", "; computed 6 GiB; limit 5 GiB"),
    ],
)
def test_message_says_what_is_known(computed: str, limit: str, between: str) -> None:
    problem = Problem(
        path="a.b", says=_PROBLEM.says, given=_PROBLEM.given, fix=_PROBLEM.fix, computed=computed, limit=limit
    )
    finding = Finding(rule="DPD-X-001", severity=Severity.ERROR, problem=problem)
    assert str(finding) == (
        f"a.b: error: DPD-X-001 something is wrong: given `b: 3`{between}. help: set `b: 2`"
    )
    assert (finding.as_dict()["computed"], finding.as_dict()["limit"]) == (computed or None, limit or None)


@pytest.mark.parametrize(
    ("file", "line", "location"), [(None, 7, "a.b"), ("x.yaml", None, "x.yaml"), ("x.yaml", 7, "x.yaml:7")]
)
def test_location_is_the_line_where_one_is_known(file: str | None, line: int | None, location: str) -> None:
    finding = Finding(rule="DPD-X-001", severity=Severity.ERROR, problem=_PROBLEM, file=file, line=line)
    assert finding.location == location


def test_rule_is_declared_once() -> None:
    def explained(_: object) -> list[Problem]:
        """Nothing."""
        return []

    known = rules()[_ERROR]
    with pytest.raises(ValueError, match=f"`{_ERROR}` is declared twice"):
        deployment_rule(_ERROR, severity=Severity.ERROR, title="t", sources=())(explained)
    assert rules()[_ERROR] is known


def test_rule_says_why() -> None:
    def unexplained(_: object) -> list[Problem]:
        return []

    with pytest.raises(ValueError, match="`unexplained` has no docstring that says why"):
        deployment_rule("DPD-X-001", severity=Severity.ERROR, title="t", sources=())(unexplained)


@pytest.mark.parametrize("subject", [Subject.DEPLOYMENT, Subject.TEMPLATE, Subject.MANIFEST])
def test_what_can_be_checked_is_not_only_recorded(subject: Subject) -> None:
    with pytest.raises(ValueError, match="`DPD-X-001` needs a check"):
        recorded_rule("DPD-X-001", subject=subject, severity=Severity.ERROR, title="t", why="w", sources=())
