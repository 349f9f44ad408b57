"""A VPC of somebody else: what a deployment adds to it, and what it leaves alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import cx_api

from hyperpod_dpd.catalog.endpoints import endpoint_services
from hyperpod_dpd.catalog.regions import region
from stacks.build import DeploymentStacks
from stacks.network import NetworkStack
from stacks.summary import summary
from tests.support.deployments import EXISTING_VPC, changed, ready
from tests.support.synth import Synthesized, application, deployments
from tests.support.template import Template, app, resources, synthesized

EXISTING = deployments()["existing-vpc"]


@pytest.fixture(scope="module")
def synthesis(tmp_path_factory: pytest.TempPathFactory) -> tuple[DeploymentStacks, cx_api.CloudAssembly]:
    cdk_app, stacks = application(tmp_path_factory.mktemp("cdk.out"), EXISTING)
    return stacks, cdk_app.synth()


@pytest.fixture(scope="module")
def whole(synthesis: tuple[DeploymentStacks, cx_api.CloudAssembly]) -> Synthesized:
    stacks, assembly = synthesis
    templates: dict[str, Any] = {
        part: assembly.get_stack_by_name(stack.stack_name).template for part, stack in stacks.by_part.items()
    }
    return Synthesized(templates=templates, needs={})


def network(**changes: Any) -> Template:
    return synthesized(NetworkStack(app(), "network", deployment=changed(EXISTING, **changes)))


def test_nothing_is_made_in_the_vpc_but_security_groups_and_the_endpoints_that_were_asked_for(
    whole: Synthesized,
) -> None:
    made = {
        (part, body["Type"])
        for part, template in whole.templates.items()
        for body in template["Resources"].values()
        if body["Type"].startswith("AWS::EC2::")
    }
    rules = {"AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress"}
    assert {kind for part, kind in made if part == "network"} == {*rules, "AWS::EC2::VPCEndpoint"}
    assert {kind for part, kind in made if part != "network"} == {*rules, "AWS::EC2::LaunchTemplate"}


def test_every_stack_uses_the_subnets_that_the_file_names(whole: Synthesized) -> None:
    system, control = list(EXISTING_VPC.system_subnet_ids), list(EXISTING_VPC.control_plane_subnet_ids)
    eks = whole.only("cluster", "AWS::EKS::Cluster")["Properties"]["ResourcesVpcConfig"]
    assert eks["SubnetIds"] == control
    assert whole.only("cluster", "AWS::EKS::Nodegroup")["Properties"]["Subnets"] == system
    hyperpod = whole.only("hyperpod", "AWS::SageMaker::Cluster")["Properties"]
    assert hyperpod["VpcConfig"]["Subnets"] == [EXISTING_VPC.gpu_subnet_id]
    (group,) = hyperpod["VpcConfig"]["SecurityGroupIds"]
    assert "ExistingEfa" in str(group)
    projects = [
        *whole.resources("hyperpod", "AWS::CodeBuild::Project").values(),
        *whole.resources("platform", "AWS::CodeBuild::Project").values(),
    ]
    inside = [body["Properties"]["VpcConfig"] for body in projects if "VpcConfig" in body["Properties"]]
    assert [(each["VpcId"], each["Subnets"]) for each in inside] == [(EXISTING_VPC.vpc_id, system)]
    placed = [
        body["Properties"]["VpcConfig"]["SubnetIds"]
        for body in whole.resources("platform", "AWS::Lambda::Function").values()
        if "VpcConfig" in body["Properties"]
    ]
    assert placed
    assert all(each == system for each in placed)


def test_others_read_the_same_parameters_as_of_a_vpc_that_was_made(whole: Synthesized) -> None:
    values = {
        body["Properties"]["Name"].rpartition("/")[2]: body["Properties"]["Value"]
        for body in whole.resources("network", "AWS::SSM::Parameter").values()
    }
    own = synthesized(NetworkStack(app(), "network", deployment=ready()))
    names = {body["Properties"]["Name"].rpartition("/")[2] for body in _parameters(own)}
    assert values.keys() == names
    assert values["vpc-id"] == EXISTING_VPC.vpc_id
    assert values["gpu-subnet-id"] == EXISTING_VPC.gpu_subnet_id
    assert values["system-subnet-ids"] == ",".join(EXISTING_VPC.system_subnet_ids)


def _parameters(template: Template) -> Iterator[Any]:
    yield from resources(template, "AWS::SSM::Parameter").values()


def test_endpoints_that_are_there_are_not_made_again_and_the_others_answer_the_whole_vpc(
    whole: Synthesized,
) -> None:
    template = whole.templates["network"]
    endpoints = resources(template, "AWS::EC2::VPCEndpoint")
    services = {str(body["Properties"]["ServiceName"]) for body in endpoints.values()}
    wanted = endpoint_services(region("us-east-1"), without=("ecr.api", "ecr.dkr"))
    assert services == {f"com.amazonaws.us-east-1.{service}" for service in wanted}
    assert {tuple(body["Properties"]["SubnetIds"]) for body in endpoints.values()} == {
        EXISTING_VPC.system_subnet_ids
    }
    (group,) = (
        body["Properties"]
        for name, body in resources(template, "AWS::EC2::SecurityGroup").items()
        if "Endpoints" in name
    )
    assert [rule["CidrIp"] for rule in group["SecurityGroupIngress"]] == list(EXISTING_VPC.cidrs)


def test_a_closed_vpc_of_somebody_else_gets_endpoints_only_when_asked_for() -> None:
    template = network(
        network__egress="closed", network__interface_endpoints=None, network__existing__endpoint_services=()
    )
    assert resources(template, "AWS::EC2::VPCEndpoint") == {}


def test_gpu_nodes_of_a_zone_without_system_subnet_reach_endpoints_in_their_own() -> None:
    template = network(network__gpu_zone_id="use1-az2")
    endpoint = next(iter(resources(template, "AWS::EC2::VPCEndpoint").values()))
    assert endpoint["Properties"]["SubnetIds"] == [
        *EXISTING_VPC.system_subnet_ids,
        EXISTING_VPC.gpu_subnet_id,
    ]


def test_the_control_plane_shares_the_subnets_of_the_system_nodes_unless_it_has_its_own() -> None:
    shared = changed(EXISTING, network__existing__cluster_subnet_ids=None).network.existing
    assert shared is not None
    assert shared.control_plane_subnet_ids == shared.system_subnet_ids


@pytest.mark.parametrize("account", [None, "123456789012"])
def test_nothing_is_looked_up_in_aws(account: str | None) -> None:
    application = app()
    NetworkStack(application, "network", deployment=changed(EXISTING, account=account))
    manifest = json.loads((Path(application.synth().directory) / "manifest.json").read_text())
    assert manifest["artifacts"]["network"]
    assert "missing" not in manifest


def test_the_summary_says_that_the_network_is_there_already(
    synthesis: tuple[DeploymentStacks, cx_api.CloudAssembly],
) -> None:
    said = summary(EXISTING, *synthesis)
    assert "network: `vpc-0123456789abcdef0` is there already, `dpd preflight`" in said
    assert "NAT gateway" not in said
