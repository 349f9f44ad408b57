"""The HyperPod cluster: what every group says, what keeps it, what must exist before it."""

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from hyperpod_dpd.cluster import DpdCluster
from hyperpod_dpd.cluster.dependencies_chart import HyperPodDependencies
from hyperpod_dpd.hyperpod import HyperPodCluster
from hyperpod_dpd.network import DpdNetwork
from hyperpod_dpd.security.logs import logs_key
from hyperpod_dpd.spec import Deployment, InstanceGroup, Role, Spot, Taint, TrainingPlan
from hyperpod_dpd.storage import AccessLogs, LifecycleScripts
from tests.support.deployments import changed, ready
from tests.support.synth import KEY, Synthesized, context, deployments, ready_synthesized, synthesize

CLUSTER = "AWS::SageMaker::Cluster"
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p5"


def _cluster(synthesized: Synthesized) -> Any:
    return synthesized.only("hyperpod", CLUSTER)


def _groups(synthesized: Synthesized) -> list[Any]:
    groups: list[Any] = _cluster(synthesized)["Properties"]["InstanceGroups"]
    return groups


def _group(**changes: Any) -> Any:
    deployment = changed(
        ready(), **{f"hyperpod__instance_groups__0__{name}": value for name, value in changes.items()}
    )
    return _groups(synthesize(deployment))[0]


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("llama-3.3-70b-p5", ["ml.p5.48xlarge", "ml.p5.48xlarge"]),
        ("llama-3.3-70b-p5en", ["ml.p5en.48xlarge", "ml.p5en.48xlarge"]),
        ("llama-3.3-70b-p5-p5en", ["ml.p5.48xlarge", "ml.p5en.48xlarge"]),
    ],
)
def test_ready_deployments_have_the_groups_of_their_file(name: str, types: list[str]) -> None:
    groups = _groups(ready_synthesized(name))
    assert [group["InstanceType"] for group in groups] == types
    assert [group["InstanceGroupName"] for group in groups] == ["prefill", "decode"]


def test_mixed_deployment_has_two_nodes_of_each_type() -> None:
    assert [group["InstanceCount"] for group in _groups(ready_synthesized("llama-3.3-70b-p5-p5en"))] == [2, 2]


def test_every_group_sends_what_hyperpod_would_otherwise_choose_badly() -> None:
    for group in _groups(ready_synthesized()):
        # absent means one thread a core, which halves the vCPUs
        assert group["ThreadsPerCore"] == 2
        assert group["LifeCycleConfig"]["OnCreate"] == "on_create.sh"
        assert group["OnStartDeepHealthChecks"] == ["InstanceStress", "InstanceConnectivity"]
        assert group["InstanceStorageConfigs"] == [{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}]


def test_every_group_is_pinned_to_the_gpu_subnet_and_the_efa_group() -> None:
    properties = _cluster(ready_synthesized())["Properties"]
    vpc = properties["VpcConfig"]
    assert len(vpc["Subnets"]) == len(vpc["SecurityGroupIds"]) == 1
    assert "GpuSubnet" in str(vpc["Subnets"])
    assert "EfaGroup" in str(vpc["SecurityGroupIds"])
    assert [group["OverrideVpcConfig"] for group in properties["InstanceGroups"]] == [vpc, vpc]


def test_on_demand_is_hyperpods_default_and_is_not_sent() -> None:
    group = _groups(ready_synthesized())[0]
    assert "CapacityRequirements" not in group
    assert "TrainingPlanArn" not in group


def test_spot_survives_as_an_empty_object() -> None:
    group = _group(capacity=Spot(type="spot"))
    assert group["CapacityRequirements"] == {"Spot": {}}


def test_training_plan_is_named() -> None:
    group = _group(capacity=TrainingPlan(type="training-plan", arn=PLAN))
    assert group["TrainingPlanArn"] == PLAN
    assert "CapacityRequirements" not in group


def test_minimum_labels_taints_and_volumes_reach_the_group() -> None:
    group = _group(
        count=4,
        minimum=2,
        labels={"team": "serving"},
        taints=(Taint(key="dedicated", value="prefill", effect="NoSchedule"),),
        deep_health_checks=(),
        volume_gib=1000,
        threads_per_core=1,
    )
    assert group["InstanceCount"] == 4
    assert group["MinInstanceCount"] == 2
    assert group["KubernetesConfig"] == {
        "Labels": {"team": "serving"},
        "Taints": [{"Key": "dedicated", "Value": "prefill", "Effect": "NoSchedule"}],
    }
    assert "OnStartDeepHealthChecks" not in group
    assert group["ThreadsPerCore"] == 1
    assert group["InstanceStorageConfigs"] == [{"EbsVolumeConfig": {"VolumeSizeInGB": 1000}}]


def test_a_customers_key_encrypts_both_volumes_of_a_group() -> None:
    with_key, without = _groups(synthesize(deployments()["every-option"]))
    assert with_key["InstanceStorageConfigs"] == [
        {"EbsVolumeConfig": {"VolumeSizeInGB": 500, "VolumeKmsKeyId": KEY}},
        # the size of the root volume is HyperPod's: CreateCluster refuses one
        {"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": KEY}},
    ]
    assert without["InstanceStorageConfigs"] == [{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}]


def test_a_group_may_be_empty() -> None:
    assert _group(count=0)["InstanceCount"] == 0


def test_any_number_of_groups() -> None:
    groups = tuple(
        InstanceGroup(
            name=f"group-{number}",
            role=Role.DECODE if number else Role.PREFILL,
            instance_type="ml.p5.48xlarge",
            count=number,
        )
        for number in range(100)
    )
    synthesized = synthesize(
        changed(ready(), hyperpod__instance_groups=groups, serving__decode__instance_group="group-1")
    )
    assert [(group["InstanceGroupName"], group["InstanceCount"]) for group in _groups(synthesized)] == [
        (f"group-{number}", number) for number in range(100)
    ]


def test_placement_group_is_refused_because_hyperpod_has_no_word_for_it() -> None:
    deployment = changed(ready(), hyperpod__instance_groups__0__placement_group="together")
    with pytest.raises(ValueError, match="DPD-HP-002 instance group `prefill` names a placement group"):
        synthesize(deployment)


def test_modes_of_the_cluster() -> None:
    properties = _cluster(ready_synthesized())["Properties"]
    assert properties["NodeRecovery"] == "Automatic"
    assert properties["NodeProvisioningMode"] == "Continuous"
    assert "TieredStorageConfig" not in properties


def test_modes_that_are_off_or_tuned() -> None:
    properties = _cluster(
        synthesize(
            changed(
                ready(),
                hyperpod__node_recovery="none",
                hyperpod__continuous_provisioning=False,
                hyperpod__tiered_storage_memory_percent=20,
            )
        )
    )["Properties"]
    assert properties["NodeRecovery"] == "None"
    assert "NodeProvisioningMode" not in properties
    assert properties["TieredStorageConfig"] == {"Mode": "Enable", "InstanceMemoryAllocationPercentage": 20}


def test_the_name_is_explicit_so_that_a_replacement_is_refused() -> None:
    assert _cluster(ready_synthesized())["Properties"]["ClusterName"] == "llama-3-3-70b-p5"
    named = synthesize(changed(ready(), hyperpod__cluster_name="gpus"))
    assert _cluster(named)["Properties"]["ClusterName"] == "gpus"


def test_joins_the_eks_cluster_by_its_arn() -> None:
    orchestrator = _cluster(ready_synthesized())["Properties"]["Orchestrator"]
    assert "Arn" in str(orchestrator["Eks"]["ClusterArn"])


def test_cluster_survives_its_stack_and_a_failed_first_creation_leaves_no_name_behind() -> None:
    cluster = _cluster(ready_synthesized())
    assert cluster["DeletionPolicy"] == "RetainExceptOnCreate"
    assert cluster["UpdateReplacePolicy"] == "Retain"


@pytest.mark.parametrize(
    ("first_act", "second_act", "policy"),
    [
        (False, None, "RetainExceptOnCreate"),
        (True, None, "RetainExceptOnCreate"),
        (True, "another-name", "RetainExceptOnCreate"),
        (False, "llama-3-3-70b-p5", "RetainExceptOnCreate"),
        (True, "llama-3-3-70b-p5", "Delete"),
    ],
)
def test_removal_takes_both_acts(*, first_act: bool, second_act: str | None, policy: str) -> None:
    deployment = changed(ready(), removal__delete_data_on_destroy=first_act, removal__confirm=second_act)
    synthesized = synthesize(deployment)
    assert _cluster(synthesized)["DeletionPolicy"] == policy
    buckets = synthesized.resources("hyperpod", "AWS::S3::Bucket").values()
    # a roll-back deletes no bucket with content, so that these are kept even by a first creation that fails
    assert {bucket["DeletionPolicy"] for bucket in buckets} == {"Delete" if policy == "Delete" else "Retain"}
    empties = synthesized.resources("hyperpod", "Custom::S3AutoDeleteObjects")
    assert len(empties) == (2 if policy == "Delete" else 0)


# -- what must exist before the cluster ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_stack() -> Template:
    """Network, EKS and HyperPod in one stack, where every dependency is visible in the template."""
    deployment = ready()
    app = cdk.App(context=context())
    holder = _Holder(app, "Everything", deployment)
    return Template.from_stack(holder)


class _Holder(cdk.Stack):
    def __init__(self, scope: cdk.App, construct_id: str, deployment: Deployment) -> None:
        super().__init__(scope, construct_id, env=cdk.Environment(region=deployment.region))
        removal_policy = cdk.RemovalPolicy.RETAIN
        network = DpdNetwork(self, "Network", spec=deployment.network, name=deployment.name)
        cluster = DpdCluster(self, "Cluster", spec=deployment.cluster, network=network, name=deployment.name)
        key = logs_key(self, "Key", removal_policy=removal_policy)
        scripts = LifecycleScripts(
            self,
            "Scripts",
            name=deployment.name,
            access_logs=AccessLogs(self, "AccessLogs", removal_policy=removal_policy),
            log_key=key,
            removal_policy=removal_policy,
        )
        chart = HyperPodDependencies(self, "Chart", cluster=cluster.cluster, network=network, log_key=key)
        HyperPodCluster(
            self,
            "HyperPod",
            name=deployment.name,
            spec=deployment.hyperpod,
            cluster=cluster.cluster,
            network=network,
            scripts=scripts,
            chart=chart,
            removal_policy=removal_policy,
        )


def _needs(template: Template, resource_type: str) -> list[Any]:
    resources = template.to_json()["Resources"]
    (body,) = [body for body in resources.values() if body["Type"] == resource_type]
    return [resources[name] for name in body["DependsOn"]]


def _has(resources: list[Any], resource_type: str, **properties: Any) -> bool:
    return any(
        resource["Type"] == resource_type
        and all(resource["Properties"].get(name) == value for name, value in properties.items())
        for resource in resources
    )


def test_cluster_waits_for_the_self_egress_rule(one_stack: Template) -> None:
    rules = [rule for rule in _needs(one_stack, CLUSTER) if rule["Type"] == "AWS::EC2::SecurityGroupEgress"]
    to_itself = [
        rule
        for rule in rules
        if rule["Properties"].get("DestinationSecurityGroupId") == rule["Properties"]["GroupId"]
    ]
    assert [rule["Properties"]["IpProtocol"] for rule in to_itself] == ["-1"]


def test_cluster_waits_for_the_self_ingress_rule(one_stack: Template) -> None:
    rules = [rule for rule in _needs(one_stack, CLUSTER) if rule["Type"] == "AWS::EC2::SecurityGroupIngress"]
    assert any(
        rule["Properties"].get("SourceSecurityGroupId") == rule["Properties"]["GroupId"]
        and rule["Properties"]["IpProtocol"] == "-1"
        for rule in rules
    )


@pytest.mark.parametrize(
    ("needed", "why"),
    [
        ("Custom::CDKBucketDeployment", "the first node would find no script"),
        ("Custom::HyperPodDependencies", "HyperPod checks for the chart"),
        ("AWS::EC2::SubnetRouteTableAssociation", "nodes would have no way to S3"),
    ],
)
def test_cluster_waits_for(one_stack: Template, needed: str, why: str) -> None:
    assert _has(_needs(one_stack, CLUSTER), needed), why


def test_cluster_waits_for_the_policy_of_its_own_role(one_stack: Template) -> None:
    resources = one_stack.to_json()["Resources"]
    (cluster,) = [body for body in resources.values() if body["Type"] == CLUSTER]
    role = cluster["Properties"]["InstanceGroups"][0]["ExecutionRole"]["Fn::GetAtt"][0]
    policies = [body for body in _needs(one_stack, CLUSTER) if body["Type"] == "AWS::IAM::Policy"]
    assert any({"Ref": role} in policy["Properties"]["Roles"] for policy in policies)


def test_the_stacks_are_deployed_in_order() -> None:
    needs = ready_synthesized().needs
    assert needs["hyperpod"] >= {"network", "cluster"}
    assert needs["cluster"] >= {"network"}


# -- tags and protection -------------------------------------------------------------------------------------------


def test_cost_tags_reach_everything_that_tolerates_them() -> None:
    synthesized = synthesize(changed(ready(), tags={"cost-centre": "4711"}))
    expected = {"Key": "cost-centre", "Value": "4711"}
    for part, resource_type in (
        ("network", "AWS::EC2::VPC"),
        ("hyperpod", "AWS::S3::Bucket"),
        ("hyperpod", "AWS::IAM::Role"),
        ("hyperpod", "AWS::CodeBuild::Project"),
    ):
        for body in synthesized.resources(part, resource_type).values():
            assert expected in body["Properties"]["Tags"], resource_type


def test_no_role_function_or_parameter_is_without_cost_tags() -> None:
    # organisations refuse them untagged, those of aws-cdk-lib's own helpers as well
    synthesized = synthesize(changed(ready(), tags={"cost-centre": "4711"}))
    untagged = {
        (part, name)
        for part, template in synthesized.templates.items()
        for name, body in template["Resources"].items()
        if body["Type"] in ("AWS::IAM::Role", "AWS::Lambda::Function", "AWS::SSM::Parameter")
        and "4711" not in str(body["Properties"].get("Tags"))
    }
    assert untagged == set()


def test_every_role_is_bounded_as_the_organization_asks() -> None:
    unbounded = {
        (part, name)
        for part, template in synthesize(deployments()["every-option"]).templates.items()
        for name, body in template["Resources"].items()
        if body["Type"] == "AWS::IAM::Role"
        and ":policy/bank/boundary" not in str(body["Properties"].get("PermissionsBoundary"))
    }
    assert unbounded == set()
    assert "PermissionsBoundary" not in str(ready_synthesized().templates)


def test_assets_come_from_the_bootstrap_that_the_organization_names() -> None:
    templates = synthesize(deployments()["every-option"]).templates
    for part, template in templates.items():
        version = template["Parameters"]["BootstrapVersion"]["Default"]
        assert version == "/cdk-bootstrap/bank/version", part
    assert "cdk-bank-assets-" in str(templates["platform"])
    assert "hnb659fds" not in str(templates)


def test_the_hyperpod_cluster_carries_the_tags_that_are_asked_for_and_no_other() -> None:
    synthesized = synthesize(changed(ready(), tags={"cost-centre": "4711"}))
    assert _cluster(synthesized)["Properties"]["Tags"] == [{"Key": "cost-centre", "Value": "4711"}]
    assert "Tags" not in _cluster(ready_synthesized())["Properties"]
