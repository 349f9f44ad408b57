"""Rules about dates take the clock, or the date that SOURCE_DATE_EPOCH gives for a repeatable check."""

import time
from datetime import datetime

import pytest

from hyperpod_dpd.catalog.eks import DEFAULT_KUBERNETES_VERSION, kubernetes_version
from hyperpod_dpd.rules import check
from hyperpod_dpd.rules.cluster.today import today
from tests.unit.rules.example import deployment


def _found(monkeypatch: pytest.MonkeyPatch, version: str, date: str) -> set[str]:
    noon = datetime.fromisoformat(f"{date}T12:00+00:00")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(noon.timestamp())))
    assert today() == date
    findings = check(deployment({"cluster.kubernetes_version": version})).findings
    return {finding.rule for finding in findings} & {"DPD-EKS-007", "DPD-EKS-008"}


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("2026-12-01", set()),
        ("2026-12-02", {"DPD-EKS-008"}),
        ("2027-12-01", {"DPD-EKS-008"}),
        ("2027-12-02", {"DPD-EKS-007"}),
    ],
)
def test_support_ends_on_the_day_of_the_calendar(
    monkeypatch: pytest.MonkeyPatch, date: str, expected: set[str]
) -> None:
    row = kubernetes_version("1.34")
    assert (row.end_of_standard_support, row.end_of_extended_support) == ("2026-12-02", "2027-12-02")
    assert _found(monkeypatch, "1.34", date) == expected


def test_default_version_is_in_standard_support_on_the_day_of_the_catalog(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _found(monkeypatch, DEFAULT_KUBERNETES_VERSION, "2026-11-30") == set()


@pytest.mark.parametrize("epoch", ["", "yesterday", "-1"])
def test_clock_is_used_without_a_date(monkeypatch: pytest.MonkeyPatch, epoch: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    before = time.strftime("%Y-%m-%d", time.gmtime())
    assert today() in {before, time.strftime("%Y-%m-%d", time.gmtime())}
