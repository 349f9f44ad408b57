"""The permissions that a preflight asks for: what its checks call, on what they name, and nothing that changes anything."""

import json
import re
from typing import Any

import botocore.session
import pytest

from hyperpod_dpd.catalog.cdk import BOOTSTRAP
from hyperpod_dpd.preflight.checks import ALL
from hyperpod_dpd.preflight.policy import policy
from tests.preflight.healthy import CERTIFICATE, PLAN, deployments
from tests.support.deployments import ROOT, ready
from tests.support.synth import ready_synthesized

_READING = ("Describe", "Get", "Head", "List", "Simulate")


def _on(document: dict[str, Any], action: str) -> str | list[str]:
    (resource,) = [row["Resource"] for row in document["Statement"] if action in row["Action"]]
    assert isinstance(resource, str | list)
    return resource


@pytest.mark.parametrize("name", deployments())
def test_policy_holds_the_calls_of_the_checks_that_apply_and_no_other(name: str) -> None:
    deployment = deployments()[name]
    actions = [action for row in policy(deployment, ALL)["Statement"] for action in row["Action"]]
    assert len(actions) == len(set(actions))
    applying = [check for check in ALL if check.applies(deployment)]
    called = {call.action for check in applying for call in check.calls if call.on(deployment)}
    assert set(actions) == called - {None}


def test_nothing_is_changed() -> None:
    assert all(call.operation.startswith(_READING) for check in ALL for call in check.calls)


def test_every_call_is_one_that_botocore_knows() -> None:
    session = botocore.session.Session()
    for call in {(call.service, call.operation) for check in ALL for call in check.calls}:
        assert call[1] in session.get_service_model(call[0]).operation_names


def test_no_action_is_a_pattern() -> None:
    for deployment in deployments().values():
        assert "*" not in "".join(
            action for row in policy(deployment, ALL)["Statement"] for action in row["Action"]
        )


def test_what_is_named_before_the_call_is_named_in_the_policy() -> None:
    account = deployments()["account"]
    document = policy(account, ALL)
    assert (
        _on(document, "eks:DescribeCluster") == "arn:aws:eks:us-east-1:123456789012:cluster/llama-3-3-70b-p5"
    )
    assert _on(document, "ssm:GetParameter") == [
        "arn:aws:ssm:us-east-1:123456789012:parameter/cdk-bootstrap/hnb659fds/version",
        "arn:aws:ssm:us-east-1:123456789012:parameter/hyperpod-dpd/llama-3-3-70b-p5/*",
    ]
    assert _on(policy(deployments()["plan"], ALL), "sagemaker:DescribeTrainingPlan") == PLAN
    assert _on(policy(deployments()["closed"], ALL), "acm:DescribeCertificate") == CERTIFICATE
    assert _on(policy(deployments()["hub"], ALL), "secretsmanager:GetSecretValue") == [
        "arn:aws:secretsmanager:us-east-1:*:secret:api-keys-??????",
        "arn:aws:secretsmanager:us-east-1:*:secret:hub-token-??????",
    ]
    assert (
        _on(policy(deployments()["bucket"], ALL), "s3:GetObject") == "arn:aws:s3:::weights/llama/config.json"
    )


def test_bootstrap_version_is_what_the_templates_demand() -> None:
    for template in ready_synthesized().templates.values():
        assert template["Parameters"]["BootstrapVersion"]["Default"] == BOOTSTRAP.version_parameter
        (assertion,) = template["Rules"]["CheckBootstrapVersion"]["Assertions"]
        too_old = assertion["Assert"]["Fn::Not"][0]["Fn::Contains"][0]
        assert max(int(version) for version in too_old) == BOOTSTRAP.minimum_version - 1


def test_page_has_the_policy_of_the_default_deployment_and_every_check() -> None:
    text = (ROOT / "docs/how-to/preflight.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)
    assert json.loads(block) == policy(ready(), ALL)
    rows = re.findall(r"^\| `(PRE-[A-Z]+-\d+)` \| (.*) \| (.*) \|$", text, flags=re.MULTILINE)
    assert rows == [
        (check.id, check.title, ", ".join(f"`{action}`" for action in check.actions) or "none")
        for check in sorted(ALL, key=lambda check: check.id)
    ]
