"""Every statement of every policy of every stack: what is written with a wildcard is on a list, with a reason.

cdk-nag looks at identities only. This looks at what is attached to resources too, at trust, and at the table by which
cdk-nag's findings are accepted: nothing is allowed here that nobody has accepted there.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import aws_cdk as cdk
import pytest

from hyperpod_dpd.security.acknowledgements import ACKNOWLEDGEMENTS
from tests.support.synth import deployments, synthesize
from tests.support.template import app

NAMES = ("llama-3.3-70b-p5", "closed", "alone", "shared")

ON_RESOURCES = {
    ("AWS::KMS::Key", "kms:*"): "the account itself stays able to administer its key; IAM decides who in it",
    ("AWS::KMS::Key", "*"): "a key's own policy can name nothing but the key, which it calls `*`",
    (
        "AWS::KMS::Key",
        "kms:ReEncrypt*",
    ): "both directions of one action, for the service that the statement names",
    (
        "AWS::KMS::Key",
        "kms:GenerateDataKey*",
    ): "with and without plain text, for the service that the statement names",
    (
        "AWS::KMS::Key",
        "kms:Describe*",
    ): "the one action of this name, for the service that the statement names",
    ("AWS::S3::BucketPolicy", "s3:*"): "refuses requests without TLS, whatever they ask for",
}
"""Wildcards in policies of resources: type of the policy and what has the wildcard, with the reason."""


@cache
def _templates(name: str) -> Mapping[str, Any]:
    return synthesize(deployments()[name]).templates


def _statements() -> Iterator[tuple[str, str, str, str, Mapping[str, Any]]]:
    """Yield deployment, part, type, logical id and statement of every policy."""
    for name in NAMES:
        for part, template in _templates(name).items():
            for logical_id, body in template["Resources"].items():
                for statement in _found(body.get("Properties", {})):
                    yield name, part, body["Type"], logical_id, statement


def _found(value: Any) -> Iterator[Mapping[str, Any]]:
    match value:
        case {"Effect": _, "Action": _}:
            yield value
        case Mapping():
            for inner in value.values():
                yield from _found(inner)
        case list():
            for inner in value:
                yield from _found(inner)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _written(value: Any) -> str:
    """Return a value as cdk-nag writes it in its findings."""
    match value:
        case str():
            return value
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(_written(part) for part in parts)
        case {"Fn::ImportValue": name}:
            return str(name)
        case {"Fn::Sub": text}:
            return str(text).replace("${", "<").replace("}", ">")
    return json.dumps(value)


def _wildcards(statement: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for kind in ("Action", "Resource"):
        for entry in _items(statement.get(kind)):
            text = _written(entry)
            if "*" in text:
                yield kind, text


@cache
def _accepted(name: str, part: str) -> frozenset[str]:
    """Return what the table accepts in a part of a deployment, as `Action::...` and `Resource::...`."""
    deployment = deployments()[name]
    env = cdk.Environment(account=deployment.account, region=deployment.region)
    stack = cdk.Stack(app(), part, env=env)
    return frozenset(
        _same(entry.id(stack, deployment).partition("IAM5[")[2].removesuffix("]"))
        for entry in ACKNOWLEDGEMENTS
        if entry.part == part and entry.finding.startswith("IAM5[")
    )


def _same(text: str) -> str:
    return text.replace("<AWS::Partition>", "aws")


IDENTITIES = ("AWS::IAM::Policy", "AWS::IAM::Role", "AWS::IAM::ManagedPolicy")


def test_no_identity_has_a_wildcard_that_nobody_accepted() -> None:
    found = {
        (name, part, f"{kind}::{_same(text)}")
        for name, part, resource_type, _, statement in _statements()
        if resource_type in IDENTITIES
        for kind, text in _wildcards(statement)
    }
    assert len(found) > 20
    assert {entry for entry in found if entry[2] not in _accepted(entry[0], entry[1])} == set()


def test_no_resource_has_a_wildcard_without_a_reason() -> None:
    found = {
        (resource_type, text)
        for _, _, resource_type, _, statement in _statements()
        if resource_type not in IDENTITIES
        for kind, text in _wildcards(statement)
        # a bucket's own objects
        if not (kind == "Resource" and resource_type == "AWS::S3::BucketPolicy" and text.endswith(".Arn>/*"))
    }
    found = {entry for entry in found if not _is_folder(*entry)}
    assert found - ON_RESOURCES.keys() == set()
    # and no reason without a wildcard
    assert ON_RESOURCES.keys() - found == set()


def _is_folder(resource_type: str, text: str) -> bool:
    """Whether a bucket's policy names a folder of its own bucket."""
    return resource_type == "AWS::S3::BucketPolicy" and text.startswith("<") and ".Arn>/" in text


def test_everybody_is_only_ever_refused() -> None:
    for name, part, _, logical_id, statement in _statements():
        principal = statement.get("Principal", {})
        everybody = principal == "*" or "*" in _items(principal.get("AWS") if principal != "*" else "*")
        if everybody:
            assert statement["Effect"] == "Deny", (name, part, logical_id)


def test_nothing_is_allowed_by_exclusion() -> None:
    for name in NAMES:
        text = json.dumps(_templates(name))
        for word in ('"NotAction"', '"NotResource"', '"NotPrincipal"'):
            assert word not in text, (name, word)


def test_no_identity_may_do_everything_of_a_service() -> None:
    for name, part, resource_type, logical_id, statement in _statements():
        if resource_type in IDENTITIES:
            for action in _items(statement["Action"]):
                assert not str(action).endswith(":*"), (name, part, logical_id)
                assert action != "*", (name, part, logical_id)


@pytest.mark.parametrize("entry", ON_RESOURCES, ids=str)
def test_every_reason_is_one(entry: tuple[str, str]) -> None:
    assert len(ON_RESOURCES[entry].split()) >= 6
