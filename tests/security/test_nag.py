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

Findings = set[tuple[str, str, str]]
"""Part, construct path inside the stack, id."""


def _findings(folder: Path, deployment: Deployment) -> Findings:
    """Return the findings of the pack that are not acknowledged."""
    app, stacks = application(folder, deployment)
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks())
    parts = {
        stacks.network.node.id: "network",
        stacks.cluster.node.id: "cluster",
        stacks.hyperpod.node.id: "hyperpod",
    }
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


@pytest.mark.parametrize("name", [READY[0], "account-given"])
def test_every_acknowledgement_has_its_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    deployment = DEPLOYMENTS[name]
    _, stacks = application(tmp_path / "ids", deployment)
    expected = {(entry.part, entry.path, entry.id(stacks.hyperpod)) for entry in ACKNOWLEDGEMENTS}
    monkeypatch.setattr(acknowledgements, "ACKNOWLEDGEMENTS", ())
    assert _findings(tmp_path / "bare", deployment) == expected


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
