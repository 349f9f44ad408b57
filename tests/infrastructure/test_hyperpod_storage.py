"""Buckets: name, encryption, TLS, versions, access logs."""

import json
from typing import Any

import aws_cdk as cdk
import pytest

from hyperpod_dpd.catalog.regions import regions
from hyperpod_dpd.derive.bucket import bucket_name as name_of_bucket
from hyperpod_dpd.storage import bucket_name
from tests.support.synth import ready_synthesized


def _buckets() -> dict[str, Any]:
    return ready_synthesized().resources("hyperpod", "AWS::S3::Bucket")


def _scripts() -> tuple[str, Any]:
    ((name, body),) = [item for item in _buckets().items() if "BucketName" in item[1]["Properties"]]
    return name, body["Properties"]


def _statements(bucket: str) -> list[Any]:
    policies = ready_synthesized().resources("hyperpod", "AWS::S3::BucketPolicy").values()
    (policy,) = [body for body in policies if body["Properties"]["Bucket"] == {"Ref": bucket}]
    statements: list[Any] = policy["Properties"]["PolicyDocument"]["Statement"]
    return statements


def test_the_lifecycle_bucket_has_the_prefix_that_hyperpods_policy_reads() -> None:
    _, properties = _scripts()
    assert json.dumps(properties["BucketName"]).startswith(
        '{"Fn::Join": ["", ["sagemaker-llama-3-3-70b-p5-", {"Ref": "AWS::AccountId"}, "-us-east-1-"'
    )


def test_a_bucket_that_a_failed_creation_leaves_behind_is_not_in_the_way_of_the_next() -> None:
    """The upload fills it before HyperPod refuses a cluster for which there is no quota."""
    name, properties = _scripts()
    (resource,) = [body for key, body in _buckets().items() if key == name]
    assert resource["DeletionPolicy"] == "Retain"
    *_, attempt = properties["BucketName"]["Fn::Join"][1]
    uuid = {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}
    assert attempt == {"Fn::Select": [0, {"Fn::Split": ["-", uuid]}]}


@pytest.mark.parametrize("region", [row.name for row in regions()])
def test_the_longest_name_of_an_attempt_fits(region: str) -> None:
    name = name_of_bucket("sagemaker-", "a" * 40, account="123456789012", region=region, attempt="01234567")
    assert len(name) <= 63
    assert name.startswith("sagemaker-aa")
    assert name.endswith(f"-123456789012-{region}-01234567")


@pytest.mark.parametrize("region", [row.name for row in regions()])
def test_the_longest_deployment_name_still_gives_a_bucket_name_of_its_own(region: str) -> None:
    stack = cdk.Stack(cdk.App(), "S", env=cdk.Environment(account="123456789012", region=region))
    names = [bucket_name("sagemaker-", "a" * 39 + last, stack) for last in "bc"]
    assert len(set(names)) == 2
    for name in names:
        assert len(name) <= 63
        assert name.startswith("sagemaker-aaa")
        assert name.endswith(f"-123456789012-{region}")


@pytest.mark.parametrize("bucket", range(2))
def test_every_bucket_is_private_encrypted_and_versioned(bucket: int) -> None:
    properties = list(_buckets().values())[bucket]["Properties"]
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    (rule,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    assert properties["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    assert "AccessControl" not in properties


@pytest.mark.parametrize("bucket", range(2))
def test_every_bucket_refuses_requests_without_tls(bucket: int) -> None:
    denied = [
        statement["Condition"]
        for statement in _statements(list(_buckets())[bucket])
        if statement["Effect"] == "Deny" and statement["Action"] == "s3:*"
    ]
    assert {"Bool": {"aws:SecureTransport": "false"}} in denied
    assert {"NumericLessThan": {"s3:TlsVersion": 1.2}} in denied


def test_access_logs_arrive_without_acls() -> None:
    name, properties = _scripts()
    logs = properties["LoggingConfiguration"]
    (statement,) = [
        statement
        for statement in _statements(logs["DestinationBucketName"]["Ref"])
        if statement["Effect"] == "Allow"
    ]
    assert statement["Principal"] == {"Service": "logging.s3.amazonaws.com"}
    assert statement["Action"] == "s3:PutObject"
    assert statement["Condition"]["ArnLike"] == {"aws:SourceArn": {"Fn::GetAtt": [name, "Arn"]}}
    assert logs["LogFilePrefix"] in json.dumps(statement["Resource"])


def test_the_whole_folder_is_uploaded_to_where_the_nodes_look() -> None:
    upload = ready_synthesized().only("hyperpod", "Custom::CDKBucketDeployment")["Properties"]
    name, _ = _scripts()
    assert upload["DestinationBucketName"] == {"Ref": name}
    cluster = ready_synthesized().only("hyperpod", "AWS::SageMaker::Cluster")["Properties"]
    for group in cluster["InstanceGroups"]:
        assert group["LifeCycleConfig"]["SourceS3Uri"] == {
            "Fn::Join": ["", ["s3://", {"Ref": name}, f"/{upload['DestinationBucketKeyPrefix']}"]]
        }
