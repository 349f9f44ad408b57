"""Logical ids of what must not be replaced.

CloudFormation knows a resource by its logical id: another id is another resource, and the old one goes, or is left
behind with its name taken. Renaming a construct is therefore a migration, and this file is where it shows.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hyperpod_dpd.derive.kept_names import kept_names
from tests.support.deployments import ready
from tests.support.synth import READY, ready_synthesized

SNAPSHOT = Path(__file__).parent / "logical_ids.json"
PINNED = {
    "AWS::EC2::EIP",
    "AWS::EC2::NatGateway",
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::Subnet",
    "AWS::EC2::VPC",
    "AWS::IAM::Role",
    "Custom::HyperPodDependencies",
}
"""What others refer to by id or address, beside everything that outlives its stack."""


ACCOUNT = "123456789012"
NAMED = {
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SecretsManager::Secret": "Name",
}
"""Property with the name, by type, of what may stay under a name that its stack gave."""


def _is_pinned(body: Mapping[str, Any]) -> bool:
    return body["Type"] in PINNED or body.get("DeletionPolicy", "Delete") != "Delete"


def _pinned(name: str) -> dict[str, dict[str, str]]:
    return {
        part: {
            logical_id: body["Type"]
            for logical_id, body in sorted(template["Resources"].items())
            if _is_pinned(body)
        }
        for part, template in sorted(ready_synthesized(name).templates.items())
    }


def test_ids_are_those_of_the_last_release() -> None:
    assert _pinned(READY[0]) == json.loads(SNAPSHOT.read_text())


def test_people_and_programs_find_outputs_by_names_without_a_hash() -> None:
    # an output that is made below a stack gets a hash; those between stacks are CDK's own and start with `Exports`
    names = {
        output
        for template in ready_synthesized().templates.values()
        for output in template.get("Outputs", {})
        if not output.startswith("Exports")
    }
    assert {"FillSecretsCommand", "KubeconfigCommand"} <= names
    assert [name for name in names if re.search(r"[0-9A-F]{8}$", name)] == []


@pytest.mark.parametrize(
    "resource_type",
    [
        "AWS::EKS::Cluster",
        "AWS::KMS::Key",
        "AWS::Logs::LogGroup",
        "AWS::S3::Bucket",
        "AWS::SageMaker::Cluster",
    ],
)
def test_what_holds_data_or_capacity_outlives_its_stack(resource_type: str) -> None:
    bodies = [
        body
        for template in ready_synthesized().templates.values()
        for body in template["Resources"].values()
        if body["Type"] == resource_type
    ]
    assert bodies
    # what has no name of its own and cannot be deleted while it is full is also kept when a first creation fails
    assert {body["DeletionPolicy"] for body in bodies} <= {"RetainExceptOnCreate", "Retain"}
    assert {body["UpdateReplacePolicy"] for body in bodies} == {"Retain"}


def test_ids_do_not_depend_on_the_instance_types() -> None:
    assert _pinned("llama-3.3-70b-p5en")["hyperpod"] == _pinned(READY[0])["hyperpod"]


def _literal(value: Any) -> str | None:
    """Return a name that is known before the stack is made, with the account's number as a pattern."""
    if isinstance(value, str):
        return value
    parts = value["Fn::Join"][1] if isinstance(value, dict) and "Fn::Join" in value else [value]
    texts = [ACCOUNT if part == {"Ref": "AWS::AccountId"} else part for part in parts]
    return "".join(texts) if all(isinstance(text, str) for text in texts) else None


@pytest.mark.parametrize("name", READY)
def test_names_that_stay_taken_are_those_that_preflight_looks_for(name: str) -> None:
    taken = {
        (part, literal)
        for part, template in ready_synthesized(name).templates.items()
        for body in template["Resources"].values()
        if body.get("DeletionPolicy", "Delete") != "Delete" and body["Type"] in NAMED
        if (literal := _literal(body["Properties"].get(NAMED[body["Type"]], {})))
    }
    assert taken == {(kept.part, kept.name) for kept in kept_names(ready(name), account=ACCOUNT)}


@pytest.mark.parametrize("name", READY)
def test_what_a_roll_back_leaves_has_no_name_that_the_next_attempt_gives(name: str) -> None:
    """CloudFormation says `already exists` and rolls back again, before it has made anything that would help."""
    left = {
        (part, body["Type"], _literal(body["Properties"].get(NAMED.get(body["Type"], "Name"), {})))
        for part, template in ready_synthesized(name).templates.items()
        for body in template["Resources"].values()
        if body.get("DeletionPolicy") == "Retain"
    }
    assert {("hyperpod", "AWS::S3::Bucket", None), ("platform", "AWS::S3::Bucket", None)} <= left
    assert {given for _, _, given in left} == {None}


def test_names_that_are_no_ones_but_the_stacks_are_of_the_listed_types() -> None:
    """Another type with a name of its own that stays needs a row here, and a look by preflight."""
    found = {
        body["Type"]
        for template in ready_synthesized().templates.values()
        for body in template["Resources"].values()
        if body.get("DeletionPolicy", "Delete") != "Delete"
        if any(key.endswith("Name") and isinstance(value, str) for key, value in body["Properties"].items())
        or isinstance(body["Properties"].get("Name"), str)
    }
    assert found <= {*NAMED, "AWS::EKS::Cluster", "AWS::SageMaker::Cluster"}
