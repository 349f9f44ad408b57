"""Constructs take part in CDK's own ways: connections, grants, validation, warnings, events."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from constructs import Construct, IConstruct

import hyperpod_dpd
from hyperpod_dpd.cluster.dependencies_chart import HyperPodDependencies
from hyperpod_dpd.hyperpod import HyperPodCluster
from hyperpod_dpd.network import EfaSecurityGroup, ExistingNetwork
from hyperpod_dpd.network.self_traffic import UNSEEN
from hyperpod_dpd.security.rules import TemplateRules, apply_rules, warning_id
from hyperpod_dpd.storage import LifecycleScripts
from tests.support.deployments import changed, ready
from tests.support.template import app, only, resources, synthesized, text


class Existing:
    """Somebody's VPC, EKS cluster, bucket and key, and a HyperPod cluster of ours in them."""

    def __init__(self, *, group: str = "ours", continuous_provisioning: bool = True) -> None:
        self.app = app()
        self.stack = cdk.Stack(self.app, "stack", env=cdk.Environment(region="us-east-1"))
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self.stack, "Vpc", vpc_id="vpc-0123456789abcdef0", availability_zones=["us-east-1a"]
        )
        self.group = self._group(group)
        network = network_in(self.stack, self.vpc, self.group)
        self.cluster = eks.Cluster.from_cluster_attributes(
            self.stack,
            "Cluster",
            cluster_name="theirs",
            vpc=self.vpc,
            cluster_security_group_id="sg-0123456789abcdef1",
        )
        self.key = kms.Key.from_key_arn(
            self.stack,
            "Key",
            "arn:aws:kms:us-east-1:123456789012:key/00000000-0000-0000-0000-000000000000",
        )
        self.bucket = s3.Bucket.from_bucket_name(self.stack, "Bucket", "sagemaker-theirs")
        deployment = changed(ready(), hyperpod__continuous_provisioning=continuous_provisioning)
        self.hyperpod = HyperPodCluster(
            self.stack,
            "HyperPod",
            name="ours",
            spec=deployment.hyperpod,
            cluster=self.cluster,
            network=network,
            scripts=LifecycleScripts(
                self.stack, "Scripts", name="ours", bucket=self.bucket, log_key=self.key
            ),
            chart=HyperPodDependencies(
                self.stack, "Chart", cluster=self.cluster, network=network, log_key=self.key
            ),
        )

    def _group(self, kind: str) -> ec2.ISecurityGroup:
        if kind == "ours":
            return EfaSecurityGroup(self.stack, "Efa", vpc=self.vpc).security_group
        if kind == "imported":
            return ec2.SecurityGroup.from_security_group_id(self.stack, "Efa", "sg-0123456789abcdef2")
        # what most people write: CDK drops the egress rule to the group itself without failing
        theirs = ec2.SecurityGroup(self.stack, "Efa", vpc=self.vpc)
        theirs.connections.allow_internally(ec2.Port.all_traffic())
        return theirs

    def template(self) -> Mapping[str, Any]:
        return synthesized(self.stack)


def network_in(stack: cdk.Stack, vpc: ec2.IVpc, group: ec2.ISecurityGroup) -> ExistingNetwork:
    first, second, gpu = (
        ec2.Subnet.from_subnet_id(stack, f"Subnet{number}", f"subnet-0123456789abcdef{number}")
        for number in range(3)
    )
    return ExistingNetwork(
        vpc=vpc,
        vpc_cidrs=("10.0.0.0/16",),
        cluster_subnets=(first, second),
        system_subnets=(first, second),
        gpu_subnet=gpu,
        efa_security_group=group,
    )


@pytest.fixture(scope="module")
def used() -> tuple[Existing, Mapping[str, Any]]:
    """One stack in which everything is used once, and its template."""
    existing = Existing()
    hyperpod = existing.hyperpod
    efa = existing.stack.node.find_child("Efa")
    assert isinstance(efa, EfaSecurityGroup)
    client = ec2.SecurityGroup(existing.stack, "Client", vpc=existing.vpc)
    client.connections.allow_to(hyperpod, ec2.Port.tcp(8081), "a connectable")
    hyperpod.connections.allow_from(efa, ec2.Port.tcp(9), "and back")
    s3.Bucket(existing.stack, "Weights").grant_read(hyperpod)
    hyperpod.on_cluster_event("Trouble", target=targets.SnsTopic(sns.Topic(existing.stack, "Topic")))
    return existing, existing.template()


def test_a_cluster_of_ours_joins_vpc_eks_bucket_and_key_of_somebody_else(
    used: tuple[Existing, Mapping[str, Any]],
) -> None:
    _, template = used
    for kind in ("AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EKS::Cluster", "AWS::KMS::Key"):
        assert resources(template, kind) == {}
    _, cluster = only(template, "AWS::SageMaker::Cluster")
    group = cluster["Properties"]["InstanceGroups"][0]
    assert group["LifeCycleConfig"]["SourceS3Uri"] == "s3://sagemaker-theirs/lifecycle"
    assert "theirs" in text(cluster["Properties"]["Orchestrator"]["Eks"]["ClusterArn"])


def test_ports_are_opened_between_a_construct_and_a_connectable(
    used: tuple[Existing, Mapping[str, Any]],
) -> None:
    existing, template = used
    group = existing.stack.resolve(existing.group.security_group_id)
    opened = [
        rule["Properties"]["FromPort"]
        for rule in resources(template, "AWS::EC2::SecurityGroupIngress").values()
        if rule["Properties"]["GroupId"] == group and rule["Properties"].get("FromPort") in {9, 8081}
    ]
    assert sorted(opened) == [9, 8081]


def test_a_grant_reaches_the_execution_role(used: tuple[Existing, Mapping[str, Any]]) -> None:
    _, template = used
    weights = next(name for name in resources(template, "AWS::S3::Bucket") if name.startswith("Weights"))
    granted = [
        policy["Properties"]["Roles"]
        for policy in resources(template, "AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "s3:GetObject*" in statement["Action"]
        and {"Fn::GetAtt": [weights, "Arn"]} in statement["Resource"]
    ]
    (role,) = granted
    assert text(role[0]).startswith("${HyperPodExecutionRole")


def test_events_of_this_cluster_above_info_reach_the_target(
    used: tuple[Existing, Mapping[str, Any]],
) -> None:
    existing, template = used
    (pattern,) = [
        rule["Properties"]["EventPattern"]
        for rule in resources(template, "AWS::Events::Rule").values()
        if "detail-type" in rule["Properties"]["EventPattern"]
        and rule["Properties"]["EventPattern"]["detail-type"] == ["SageMaker HyperPod Cluster Event"]
    ]
    assert pattern["detail"]["EventDetails"]["EventLevel"] == ["Warn", "Error"]
    assert pattern["resources"] == [existing.stack.resolve(existing.hyperpod.cluster.attr_cluster_arn)]


def test_events_are_refused_where_hyperpod_sends_none() -> None:
    existing = Existing(continuous_provisioning=False)
    topic = targets.SnsTopic(sns.Topic(existing.stack, "Topic"))
    with pytest.raises(ValueError, match="continuous_provisioning"):
        existing.hyperpod.on_cluster_event("Trouble", target=topic)


def test_a_group_without_egress_to_itself_fails_the_synthesis_with_the_rule() -> None:
    with pytest.raises(RuntimeError, match=r"DPD-NET-001 .*stack/Efa.* without egress"):
        Existing(group="theirs").template()


def test_an_imported_group_is_a_warning_that_can_be_acknowledged() -> None:
    existing = Existing(group="imported")
    assert _warnings(existing.hyperpod) == [UNSEEN]
    accepted = Existing(group="imported")
    cdk.Annotations.of(accepted.stack).acknowledge_warning(UNSEEN, "our network team tests it")
    assert _warnings(accepted.hyperpod) == []


def _warnings(construct: IConstruct) -> list[str]:
    return [
        str(entry.data).rsplit("[ack: ", 1)[1].rstrip("]")
        for entry in construct.node.metadata
        if entry.type == "aws:cdk:warning"
    ]


def test_a_network_of_your_own_needs_two_subnets_for_the_control_plane() -> None:
    stack = cdk.Stack(app(), "stack")
    subnet = ec2.Subnet.from_subnet_id(stack, "Subnet", "subnet-0123456789abcdef0")
    vpc = ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-1", availability_zones=["us-east-1a"])
    group = ec2.SecurityGroup.from_security_group_id(stack, "Efa", "sg-0123456789abcdef0")
    with pytest.raises(ValueError, match=r"given 1 in `cluster_subnets`; limit at least 2"):
        ExistingNetwork(
            vpc=vpc,
            vpc_cidrs=("10.0.0.0/16",),
            cluster_subnets=(subnet,),
            system_subnets=(subnet,),
            gpu_subnet=subnet,
            efa_security_group=group,
        )


@pytest.mark.parametrize("empty", ["system_subnets", "vpc_cidrs"])
def test_a_network_of_your_own_says_where_it_is(empty: str) -> None:
    stack = cdk.Stack(app(), "stack")
    vpc = ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-1", availability_zones=["us-east-1a"])
    group = ec2.SecurityGroup.from_security_group_id(stack, "Efa", "sg-0123456789abcdef0")
    network = network_in(stack, vpc, group)
    given = {name: getattr(network, name) for name in ExistingNetwork.__dataclass_fields__}
    with pytest.raises(ValueError, match=f"`{empty}` is empty"):
        ExistingNetwork(**{**given, empty: ()})


def test_scripts_go_to_a_bucket_that_hyperpod_reads_or_nowhere() -> None:
    stack = cdk.Stack(app(), "stack")
    key = kms.Key(stack, "Key")
    with pytest.raises(ValueError, match=r"DPD-HP-004 .*given bucket `mine`"):
        LifecycleScripts(
            stack,
            "Wrong",
            name="ours",
            log_key=key,
            bucket=s3.Bucket.from_bucket_name(stack, "Bucket", "mine"),
        )
    with pytest.raises(ValueError, match="given none of `access_logs` and `bucket`"):
        LifecycleScripts(stack, "Neither", name="ours", log_key=key)


def test_a_retention_that_cloudwatch_does_not_know_is_refused_with_one_that_it_knows() -> None:
    stack = cdk.Stack(app(), "stack")
    with pytest.raises(
        ValueError, match=r"`stack/Builds`: given 91 days, limit 1, 3, .*, 3653\. help: give 120$"
    ):
        hyperpod_dpd.BuildRunner(stack, "Builds", log_key=kms.Key(stack, "Key"), log_retention_days=91)


def test_an_error_of_a_rule_fails_the_synthesis_of_an_app_that_applies_the_rules() -> None:
    application = app()
    stack = cdk.Stack(application, "stack")
    report = apply_rules(stack, changed(ready(), serving__tensor_parallel=3))
    assert report.errors
    with pytest.raises(RuntimeError, match="DPD-SRV-002"):
        application.synth()


def test_a_warning_of_a_rule_has_an_id_that_never_changes() -> None:
    stack = cdk.Stack(app(), "stack")
    apply_rules(stack, changed(ready(), acknowledge=()))
    assert warning_id("DPD-EKS-001") == "hyperpod-dpd:DPD-EKS-001"
    assert warning_id("DPD-EKS-001") in _warnings(stack)


def test_template_rules_speak_as_a_plugin_of_cdk_and_name_the_resource() -> None:
    application = app()
    stack = cdk.Stack(application, "stack", env=cdk.Environment(region="us-east-1"))
    cdk.Validations.of(application).add_plugins(TemplateRules())
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("eks.amazonaws.com"))
    eks.CfnCluster(
        stack,
        "Cluster",
        role_arn=role.role_arn,
        resources_vpc_config=eks.CfnCluster.ResourcesVpcConfigProperty(
            subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
        ),
    )
    with pytest.raises(RuntimeError, match="ERROR DPD-EKS-002 control-plane logs are off"):
        application.synth()
    report = json.loads((Path(application.outdir) / "validation-report.json").read_text())
    (ours,) = [entry for entry in report["pluginReports"] if entry["pluginName"] == "hyperpod-dpd"]
    found = {violation["ruleName"]: violation for violation in ours["violations"]}
    assert {"DPD-EKS-002", "DPD-EKS-003"} <= found.keys()
    assert found["DPD-EKS-003"]["severity"] == "error"
    (place,) = found["DPD-EKS-003"]["violatingConstructs"]
    assert place["constructPath"] == "stack/Cluster"


@pytest.mark.parametrize(
    ("member", "interface"), [("connections", ec2.IConnectable), ("grant_principal", iam.IGrantable)]
)
def test_whatever_looks_connectable_or_grantable_is_so_for_cdk(member: str, interface: type) -> None:
    """Without the declaration `allow_to(construct)` and `grant_read(construct)` fail in CDK's own process."""
    constructs = {
        name: thing
        for name in hyperpod_dpd.__all__
        if isinstance(thing := getattr(hyperpod_dpd, name), type)
        and issubclass(thing, Construct)
        and member in vars(thing)
    }
    assert constructs
    assert [
        name for name, thing in constructs.items() if interface not in vars(thing)["__jsii_ifaces__"]
    ] == []
