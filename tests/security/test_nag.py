"""cdk-nag's AwsSolutions pack: every finding is accepted by name and reason, and every acceptance has a finding."""

import contextlib
import json
from pathlib import Path

import aws_cdk as cdk
import cdk_nag
import pytest

from hyperpod_dpd.security import acknowledgements
from hyperpod_dpd.security.acknowledgements import ACKNOWLEDGEMENTS, NagAcknowledgement
from hyperpod_dpd.spec import Deployment
from tests.support.synth import READY, application, deployments

DEPLOYMENTS = deployments()

OPTIONS = (READY[0], "alone", "every-option")
"""Deployments that have every construct between them."""

Findings = set[tuple[str, str, str]]
"""Part, construct path inside the stack, id."""


def _findings(folder: Path, deployment: Deployment) -> Findings:
    """Return the findings of the pack that are not acknowledged."""
    app, stacks = application(folder, deployment)
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks())
    parts = {stack.node.id: part for part, stack in stacks.by_part.items()}
    # a failed validation raises after it has written its report
    with contextlib.suppress(RuntimeError):
        app.synth()
    report = folder / "validation-report.json"
    (pack,) = json.loads(report.read_text())["pluginReports"]
    assert pack["pluginName"] == "AwsSolutions"
    found: Findings = set()
    for violation in pack["violations"]:
        for construct in violation["violatingConstructs"]:
            stack, _, path = construct["constructPath"].partition("/")
            found.add((parts[stack], path, f"AwsSolutions::{violation['ruleName']}"))
    return found


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_no_finding_is_unacknowledged(tmp_path: Path, name: str) -> None:
    assert _findings(tmp_path, DEPLOYMENTS[name]) == set()


def _unacknowledged(folder: Path, monkeypatch: pytest.MonkeyPatch, deployment: Deployment) -> Findings:
    with monkeypatch.context() as patch:
        patch.setattr(acknowledgements, "ACKNOWLEDGEMENTS", ())
        return _findings(folder, deployment)


def _accepted(folder: Path, deployment: Deployment, *, optional: bool) -> Findings:
    _, stacks = application(folder, deployment)
    return {
        (entry.part, entry.path, entry.id(stacks.by_part[entry.part], deployment))
        for entry in ACKNOWLEDGEMENTS
        if entry.optional is optional
    }


@pytest.mark.parametrize("name", [READY[0], "account-given"])
def test_every_acknowledgement_has_its_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    deployment = DEPLOYMENTS[name]
    found = _unacknowledged(tmp_path / "bare", monkeypatch, deployment)
    assert _accepted(tmp_path / "ids", deployment, optional=False) <= found


def test_every_optional_acknowledgement_has_its_finding_in_some_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[str, str, str]] = set()
    for name in OPTIONS:
        deployment = DEPLOYMENTS[name]
        found = _unacknowledged(tmp_path / f"{name}-bare", monkeypatch, deployment)
        _, stacks = application(tmp_path / name, deployment)
        seen |= {
            (entry.part, entry.path, entry.finding)
            for entry in ACKNOWLEDGEMENTS
            if entry.part in stacks.by_part
            and (entry.part, entry.path, entry.id(stacks.by_part[entry.part], deployment)) in found
        }
    optional = {(entry.part, entry.path, entry.finding) for entry in ACKNOWLEDGEMENTS if entry.optional}
    assert optional - seen == set()


def test_the_list_is_pinned() -> None:
    assert sorted(f"{entry.part}/{entry.path}: {entry.finding}" for entry in ACKNOWLEDGEMENTS) == json.loads(
        (Path(__file__).parent / "acknowledgements.json").read_text()
    )


@pytest.mark.parametrize("entry", ACKNOWLEDGEMENTS, ids=lambda entry: f"{entry.path}:{entry.finding}")
def test_every_acknowledgement_is_exact_and_reasoned(entry: NagAcknowledgement) -> None:
    # a bare IAM4 or IAM5 would accept whatever is added later
    if entry.finding.startswith("IAM"):
        assert "[" in entry.finding
    assert len(entry.reason.split()) >= 6


def test_an_acknowledgement_of_a_construct_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = NagAcknowledgement(part="network", path="Network/Gone", finding="VPC7", reason="was here once")
    monkeypatch.setattr(acknowledgements, "ACKNOWLEDGEMENTS", (stale,))
    with pytest.raises(LookupError, match="no construct `Network/Gone`"):
        application(tmp_path, DEPLOYMENTS[READY[0]])
