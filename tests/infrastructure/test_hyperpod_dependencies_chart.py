"""The dependencies chart's resources: access, way to the API server, timeouts, and what makes it run again."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from hyperpod_dpd.catalog import charts
from hyperpod_dpd.catalog.regions import regions
from hyperpod_dpd.catalog.row import UnknownCatalogEntryError
from hyperpod_dpd.cluster.dependencies_chart import build_environment, download_environment
from hyperpod_dpd.cluster.dependencies_chart import chart as chart_module
from hyperpod_dpd.spec import DependenciesChart as Source
from tests.support.deployments import changed, ready
from tests.support.synth import application, ready_synthesized, synthesize

RESOURCE = "Custom::HyperPodDependencies"
ARCHIVE = Source(source="s3", s3_uri="s3://mine/dependencies.tar.gz", sha256="a" * 64)


def _only(resource_type: str) -> Any:
    return ready_synthesized().only("hyperpod", resource_type)


def _depends_on(body: Any) -> list[Any]:
    resources = ready_synthesized().templates["hyperpod"]["Resources"]
    return [resources[name] for name in body["DependsOn"]]


def _statements(role: str) -> list[Any]:
    policies = ready_synthesized().resources("hyperpod", "AWS::IAM::Policy")
    (policy,) = [body for body in policies.values() if role in json.dumps(body["Properties"]["Roles"])]
    statements: list[Any] = policy["Properties"]["PolicyDocument"]["Statement"]
    return statements


def test_the_resource_carries_every_input_so_that_a_changed_pin_runs_the_build_again() -> None:
    properties = _only(RESOURCE)["Properties"]
    environment = properties["Environment"]
    expected = build_environment(region_name="us-east-1", cluster_name="token")
    assert environment.keys() == {*expected, "DPD_ACTION"}
    assert {name: environment[name] for name in expected if name != "DPD_CLUSTER"} == {
        name: value for name, value in expected.items() if name != "DPD_CLUSTER"
    }
    assert environment["DPD_ACTION"] == "install"
    assert properties["OnDelete"] == {"DPD_ACTION": "uninstall"}
    assert "Fn::ImportValue" in environment["DPD_CLUSTER"]
    # the asset's name is the hash of the script
    assert ".zip" in json.dumps(properties["Source"])


def test_the_build_runs_the_script_of_the_resource() -> None:
    source = _only("AWS::CodeBuild::Project")["Properties"]["Source"]
    assert source == {"Type": "S3", "Location": _only(RESOURCE)["Properties"]["Source"]}


def test_uploaded_scripts_are_complete(tmp_path: Path) -> None:
    app, _ = application(tmp_path, ready())
    app.synth()
    names = [
        sorted(path.name for path in asset.iterdir()) for asset in tmp_path.glob("asset.*") if asset.is_dir()
    ]
    assert ["buildspec.yml", "dependencies.sh", "values.yaml"] in names
    # bytecode would give the asset another hash on every machine
    assert ["__init__.py", "index.py"] in names
    assert ["on_create.sh"] in names


@pytest.mark.parametrize(
    ("resource_type", "why"),
    [
        ("AWS::EKS::AccessEntry", "the API server would not know the build"),
        ("AWS::EC2::SecurityGroupIngress", "the build would not reach the API server"),
        ("AWS::Events::Rule", "nobody would answer CloudFormation"),
        ("AWS::Lambda::Permission", "the rule could not call the function"),
    ],
)
def test_the_build_starts_only_after(resource_type: str, why: str) -> None:
    types = {body["Type"] for body in _depends_on(_only(RESOURCE))}
    assert resource_type in types, why


@pytest.mark.parametrize("resource_type", ["AWS::CodeBuild::Project", "AWS::Lambda::Function"])
def test_roles_have_their_policy_before_they_are_used(resource_type: str) -> None:
    users = [
        body
        for name, body in ready_synthesized().resources("hyperpod", resource_type).items()
        if name.startswith("DependenciesChart")
    ]
    assert users
    for body in users:
        assert "AWS::IAM::Policy" in {needed["Type"] for needed in _depends_on(body)}


def test_the_build_is_cluster_admin_through_an_entry_of_its_own() -> None:
    entry = _only("AWS::EKS::AccessEntry")["Properties"]
    assert "BuildRole" in json.dumps(entry["PrincipalArn"])
    assert entry["AccessPolicies"] == [
        {
            "AccessScope": {"Type": "cluster"},
            "PolicyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        }
    ]


def test_the_only_way_in_is_https_from_the_build_to_the_clusters_own_group() -> None:
    rule = _only("AWS::EC2::SecurityGroupIngress")["Properties"]
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 443, 443)
    assert "ClusterSecurityGroupId" in json.dumps(rule["GroupId"])
    assert "NetworkGroup" in json.dumps(rule["SourceSecurityGroupId"])
    group = _only("AWS::EC2::SecurityGroup")["Properties"]
    assert "SecurityGroupIngress" not in group
    assert [(rule["IpProtocol"], rule["FromPort"]) for rule in group["SecurityGroupEgress"]] == [("tcp", 443)]


def test_the_build_runs_in_every_system_subnet() -> None:
    vpc = _only("AWS::CodeBuild::Project")["Properties"]["VpcConfig"]
    assert len(vpc["Subnets"]) == 2
    assert all("System" in json.dumps(subnet) for subnet in vpc["Subnets"])


def test_a_build_that_hangs_is_reported_before_cloudformation_gives_up() -> None:
    project = _only("AWS::CodeBuild::Project")["Properties"]
    minutes = project["TimeoutInMinutes"] + project["QueuedTimeoutInMinutes"]
    assert minutes * 60 < int(_only(RESOURCE)["Properties"]["ServiceTimeout"])


def test_every_way_in_which_a_build_ends_is_answered() -> None:
    pattern = _only("AWS::Events::Rule")["Properties"]["EventPattern"]
    # https://docs.aws.amazon.com/codebuild/latest/userguide/sample-build-notifications.html, less IN_PROGRESS
    assert set(pattern["detail"]["build-status"]) == {"SUCCEEDED", "FAILED", "FAULT", "STOPPED", "TIMED_OUT"}
    assert pattern["detail"]["project-name"] == [{"Ref": _project_id()}]


def _project_id() -> str:
    (name,) = ready_synthesized().resources("hyperpod", "AWS::CodeBuild::Project")
    return name


def test_builds_never_run_side_by_side() -> None:
    assert _only("AWS::CodeBuild::Project")["Properties"]["ConcurrentBuildLimit"] == 1


def test_the_handler_may_run_this_project_only() -> None:
    actions = {
        action: statement["Resource"]
        for statement in _statements("RunnerRole")
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }
    assert actions.keys() == {
        "codebuild:BatchGetBuilds",
        "codebuild:ListBuildsForProject",
        "codebuild:StartBuild",
        "codebuild:StopBuild",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "logs:GetLogEvents",
    }
    assert actions["codebuild:StartBuild"] == {"Fn::GetAtt": [_project_id(), "Arn"]}


def test_logs_are_encrypted_and_kept_for_a_stated_time() -> None:
    groups = ready_synthesized().resources("hyperpod", "AWS::Logs::LogGroup").values()
    assert len(groups) == 3
    for group in groups:
        assert group["Properties"]["RetentionInDays"] == 90
        assert "KmsKeyId" in group["Properties"]


def test_an_archive_in_s3_is_readable_by_the_build_and_nothing_beside_it() -> None:
    synthesized = synthesize(changed(ready(), cluster__dependencies_chart=ARCHIVE))
    environment = synthesized.only("hyperpod", RESOURCE)["Properties"]["Environment"]
    assert environment["DPD_SOURCE"] == "s3"
    assert environment["DPD_ARCHIVE_SHA256"] == "a" * 64
    policies = json.dumps(synthesized.resources("hyperpod", "AWS::IAM::Policy"))
    assert '"arn:aws:s3:::mine/dependencies.tar.gz"' in policies
    assert "s3:::mine/*" not in policies


@pytest.mark.parametrize(
    "incomplete", [dataclasses.replace(ARCHIVE, s3_uri=None), dataclasses.replace(ARCHIVE, sha256=None)]
)
def test_an_archive_without_address_or_digest_is_refused(incomplete: Source) -> None:
    with pytest.raises(ValueError, match="needs the archive's address and digest"):
        build_environment(region_name="us-east-1", cluster_name="dpd", source=incomplete)


@pytest.mark.parametrize("region", [row.name for row in regions()])
def test_images_come_from_the_deployments_own_region(region: str) -> None:
    environment = build_environment(region_name=region, cluster_name="dpd")
    assert f".dkr.ecr.{region}.amazonaws.com/" in environment["DPD_HEALTH_AGENT_IMAGE"]
    assert f".dkr.ecr.{region}.amazonaws.com/" in environment["DPD_EFA_PLUGIN_REPOSITORY"]


def test_a_region_without_a_health_agent_is_refused_instead_of_borrowing_another_regions() -> None:
    with pytest.raises(UnknownCatalogEntryError, match="me-central-1"):
        build_environment(region_name="me-central-1", cluster_name="dpd")


def test_a_stack_without_a_region_is_refused() -> None:
    stack = cdk.Stack(cdk.App(), "Somewhere")
    with pytest.raises(ValueError, match="stack `Somewhere` has no region"):
        chart_module._region(stack)


def test_every_download_is_pinned_to_its_bytes() -> None:
    environment = download_environment()
    urls = [name for name in environment if name.endswith("_URL")]
    assert len(urls) == len(charts.ARTIFACTS) == 4
    for name in urls:
        digest = environment[name.replace("_URL", "_SHA256")]
        assert len(digest) == 64
        assert int(digest, 16)
        assert environment[name].startswith("https://")
    assert len(environment["DPD_COMMIT"]) == 40


@pytest.mark.parametrize("artifact", charts.ARTIFACTS, ids=lambda artifact: artifact.name)
def test_a_download_names_the_version_that_the_catalog_says(artifact: charts.Artifact) -> None:
    assert artifact.version in artifact.url
    assert artifact.source.confirmed


def test_kubectl_is_within_one_minor_version_of_every_supported_cluster() -> None:
    minor = int(charts.KUBECTL.version.split(".")[1])
    assert abs(minor - int(ready().cluster.kubernetes_version.split(".")[1])) <= 1
