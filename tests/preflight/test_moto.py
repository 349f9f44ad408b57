"""Checks against moto, which keeps resources as AWS does, for the services of which it has enough.

moto knows no training plans, no quotas beyond the VPC's, no versions of EKS or its add-ons and no policy simulation:
those are asked of `TableAccount` only.
"""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from hyperpod_dpd.preflight.account import AwsAccount
from hyperpod_dpd.preflight.checks import CHECKS, GATE
from hyperpod_dpd.preflight.report import Report, Status
from hyperpod_dpd.preflight.runner import preflight
from hyperpod_dpd.spec import Deployment, ExistingVpc, Images
from tests.preflight.healthy import deployments
from tests.support.deployments import changed

ACCOUNT_ID = "123456789012"


@pytest.fixture(autouse=True)
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[boto3.Session]:
    """An empty account."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        yield boto3.Session(region_name="us-east-1")


def _ask(deployment: Deployment, check_id: str) -> Report:
    checks = [check for check in CHECKS if check.id == check_id]
    return preflight(deployment, AwsAccount(region="us-east-1"), checks=checks, gate=GATE)


def _messages(deployment: Deployment, check_id: str) -> list[str]:
    report = _ask(deployment, check_id)
    assert [gap.message for _, gap in report.gaps] == []
    return [finding.message for finding in report.findings]


def test_account_of_the_credentials() -> None:
    report = _ask(changed(deployments()["default"], account="999999999999"), "PRE-ZON-001")
    (finding,) = report.findings
    assert f"computed account `{ACCOUNT_ID}` of the caller" in finding.message
    assert report.count(Status.SKIPPED) == 1


@pytest.mark.parametrize(
    ("version", "says"), [(None, "not bootstrapped"), ("5", "computed bootstrap version 5"), ("6", None)]
)
def test_bootstrap_version(session: boto3.Session, version: str | None, says: str | None) -> None:
    if version is not None:
        session.client("ssm").put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value=version, Type="String"
        )
    messages = _messages(deployments()["default"], "PRE-CDK-001")
    assert [says in message for message in messages if says] == [True] * (says is not None)
    assert len(messages) == (says is not None)


def test_zones_and_offerings_by_id() -> None:
    assert _messages(deployments()["default"], "PRE-ZON-001") == []
    (message,) = _messages(changed(deployments()["default"], network__gpu_zone_id="use1-az9"), "PRE-ZON-001")
    assert "`use1-az9`" in message
    assert "`use1-az1`, `use1-az2`" in message


def test_vpc_quota(session: boto3.Session) -> None:
    closed = deployments()["closed"]
    assert _messages(closed, "PRE-QUO-003") == []
    ec2 = session.client("ec2")
    while len(ec2.describe_vpcs()["Vpcs"]) < 5:
        ec2.create_vpc(CidrBlock="10.0.0.0/24")
    (message,) = _messages(closed, "PRE-QUO-003")
    assert "1 needed + 5 in use = 6; limit 5" in message


def test_names_that_are_taken(session: boto3.Session) -> None:
    assert _messages(deployments()["default"], "PRE-NAM-001") == []
    session.client("eks").create_cluster(
        name="llama-3-3-70b-p5", roleArn=f"arn:aws:iam::{ACCOUNT_ID}:role/x", resourcesVpcConfig={}
    )
    (message,) = _messages(deployments()["default"], "PRE-NAM-001")
    assert "EKS cluster" in message


def test_model_bucket(session: boto3.Session) -> None:
    deployment = deployments()["bucket"]
    (absent,) = _messages(deployment, "PRE-DAT-001")
    assert "does not exist" in absent
    s3 = session.client("s3")
    s3.create_bucket(Bucket="weights")
    (empty,) = _messages(deployment, "PRE-DAT-001")
    assert "the model folder is empty: given `s3://weights/llama/`" in empty
    s3.put_object(Bucket="weights", Key="llama/config.json", Body=b"{}")
    s3.put_object(Bucket="weights", Key="llama/model.safetensors", Body=b"x")
    assert _messages(deployment, "PRE-DAT-001") == []


def test_archive_with_the_digest_that_its_uploader_wrote(session: boto3.Session) -> None:
    deployment = deployments()["closed"]
    (absent,) = _messages(deployment, "PRE-DAT-003")
    assert "is not there" in absent
    s3 = session.client("s3")
    s3.create_bucket(Bucket="archives")
    s3.put_object(Bucket="archives", Key="dependencies.tar.gz", Body=b"x", Metadata={"sha256": "ee" * 32})
    (another,) = _messages(deployment, "PRE-DAT-003")
    assert f"computed `{'ee' * 32}`" in another
    s3.put_object(Bucket="archives", Key="dependencies.tar.gz", Body=b"x", Metadata={"sha256": "cd" * 32})
    assert _messages(deployment, "PRE-DAT-003") == []


def test_secrets(session: boto3.Session) -> None:
    deployment = deployments()["hub"]
    assert len(_messages(deployment, "PRE-SEC-001")) == 2
    client = session.client("secretsmanager")
    client.create_secret(Name="hub-token", SecretString="hf_x")
    client.create_secret(Name="api-keys")
    (empty,) = _messages(deployment, "PRE-SEC-001")
    assert "the secret is empty: given `api_keys_secret: api-keys`" in empty
    client.put_secret_value(SecretId="api-keys", SecretString="one\ntwo")
    assert _messages(deployment, "PRE-SEC-001") == []
    client.delete_secret(SecretId="hub-token")
    (deleted,) = _messages(deployment, "PRE-SEC-001")
    assert "scheduled for deletion" in deleted


def test_images_in_the_registry_of_the_account(session: boto3.Session) -> None:
    digest = "sha256:" + "ab" * 32
    image = f"{ACCOUNT_ID}.dkr.ecr.us-east-1.amazonaws.com/dpd-worker@{digest}"
    deployment = changed(deployments()["default"], platform__images=Images(source="given", worker=image))
    (no_repository,) = _messages(deployment, "PRE-IMG-001")
    assert "no such repository" in no_repository
    session.client("ecr").create_repository(repositoryName="dpd-worker")
    (no_image,) = _messages(deployment, "PRE-IMG-001")
    assert "no such image" in no_image


def test_certificate_that_waits_for_its_validation(session: boto3.Session) -> None:
    arn: Any = session.client("acm").request_certificate(
        DomainName="llm.example.com", ValidationMethod="DNS"
    )["CertificateArn"]
    deployment = changed(deployments()["closed"], routing__load_balancer__certificate_arn=arn)
    (message,) = _messages(deployment, "PRE-TLS-001")
    assert "status `PENDING_VALIDATION`" in message


def test_existing_vpc(session: boto3.Session) -> None:
    ec2, account = session.client("ec2"), AwsAccount(region="us-east-1")
    vpc_id = ec2.create_vpc(CidrBlock="10.20.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc_id, EnableDnsHostnames={"Value": True})
    zones = {row["ZoneId"]: row["ZoneName"] for row in ec2.describe_availability_zones()["AvailabilityZones"]}
    gpu, *system = (
        ec2.create_subnet(VpcId=vpc_id, CidrBlock=f"10.20.{number}.0/24", AvailabilityZone=zones[zone_id])[
            "Subnet"
        ]["SubnetId"]
        for number, zone_id in enumerate(["use1-az6", "use1-az6", "use1-az4"])
    )
    existing = ExistingVpc(
        vpc_id=vpc_id, cidrs=("10.20.0.0/16",), gpu_subnet_id=gpu, system_subnet_ids=tuple(system)
    )
    deployment = changed(deployments()["default"], network__existing=existing)
    # new subnets have the main route table, which leads nowhere
    messages = _of_vpc(deployment, account)
    assert ["no default route" in message for message in messages] == [True, False] * 3
    assert all(message.startswith("PRE-NET-005") for message in messages)
    (table,) = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])["RouteTables"]
    gateway = ec2.create_transit_gateway()["TransitGateway"]["TransitGatewayId"]
    ec2.create_route(
        RouteTableId=table["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", TransitGatewayId=gateway
    )
    ec2.create_vpc_endpoint(
        VpcId=vpc_id,
        ServiceName="com.amazonaws.us-east-1.s3",
        VpcEndpointType="Gateway",
        RouteTableIds=[table["RouteTableId"]],
    )
    assert _of_vpc(deployment, account) == []
    swapped = changed(deployment, network__existing__system_subnet_ids=tuple(reversed(system)))
    assert [message[:11] for message in _of_vpc(swapped, account)] == ["PRE-NET-003"] * 2
    made = changed(deployment, network__interface_endpoints=True)
    assert _of_vpc(made, account) == []
    ec2.create_vpc_endpoint(
        VpcId=vpc_id,
        ServiceName="com.amazonaws.us-east-1.sts",
        VpcEndpointType="Interface",
        SubnetIds=system,
        PrivateDnsEnabled=True,
    )
    (taken,) = _of_vpc(made, account)
    assert "add `endpoint_services: [sts]`" in taken
    absent = changed(deployment, network__existing__vpc_id="vpc-00000000")
    (message,) = _messages(absent, "PRE-NET-002")
    assert "the region has no such VPC" in message


def _of_vpc(deployment: Deployment, account: AwsAccount) -> list[str]:
    checks = [check for check in CHECKS if check.id in {f"PRE-NET-{number:03}" for number in (2, 3, 5, 6)}]
    report = preflight(deployment, account, checks=checks, gate=GATE)
    assert [gap.message for _, gap in report.gaps] == []
    return [finding.message for finding in report.findings]
