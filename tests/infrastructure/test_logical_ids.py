"""Logical ids of what must not be replaced.

CloudFormation knows a resource by its logical id: another id is another resource, and the old one goes, or is left
behind with its name taken. Renaming a construct is therefore a migration, and this file is where it shows.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

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
