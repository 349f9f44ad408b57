"""The network template: what a HyperPod cluster needs of it, and what its traps would look like."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import boto3
import pytest
from aws_cdk import aws_ec2 as ec2
from moto import mock_aws

from hyperpod_dpd.derive.obstacle import UnresolvedError
from hyperpod_dpd.network import DpdNetwork
from hyperpod_dpd.spec import Deployment, Removal
from stacks.network import NetworkStack
from tests.support.template import (
    Resource,
    Template,
    app,
    depends_on,
    only,
    resources,
    synthesized,
    tags,
    text,
)

ANYWHERE = "0.0.0.0/0"

Synthesize = Callable[..., Template]


@pytest.fixture(scope="module")
def synthesize(default_deployment: Deployment) -> Synthesize:
    def template(account: str | None = None, removal: Removal | None = None, **network: Any) -> Template:
        deployment = replace(
            default_deployment,
            account=account,
            removal=removal or default_deployment.removal,
            network=replace(default_deployment.network, **network),
        )
        return synthesized(NetworkStack(app(), "network", deployment=deployment))

    return template


@pytest.fixture(scope="module")
def template(synthesize: Synthesize) -> Template:
    return synthesize()


@pytest.fixture(scope="module")
def closed(synthesize: Synthesize) -> Template:
    return synthesize(egress="closed")


def subnets(template: Template) -> dict[str, Resource]:
    """Subnets by their `Name` tag, without the deployment's name."""
    return {
        tags(subnet)["Name"].removeprefix("llama-3-3-70b-p5-"): subnet
        for subnet in resources(template, "AWS::EC2::Subnet").values()
    }


def routes_of(template: Template, subnet_name: str) -> list[Resource]:
    """Routes of the table that the subnet called `subnet_name` is associated with."""
    (subnet_id,) = [
        logical_id
        for logical_id, subnet in resources(template, "AWS::EC2::Subnet").items()
        if tags(subnet)["Name"].endswith(subnet_name)
    ]
    (table,) = [
        association["Properties"]["RouteTableId"]
        for association in resources(template, "AWS::EC2::SubnetRouteTableAssociation").values()
        if association["Properties"]["SubnetId"] == {"Ref": subnet_id}
    ]
    return [
        route
        for route in resources(template, "AWS::EC2::Route").values()
        if route["Properties"]["RouteTableId"] == table
    ]


# -- zones and addresses ------------------------------------------------------------------------------------------


def test_every_subnet_is_placed_by_zone_id_and_none_by_name(template: Template) -> None:
    placed = {name: subnet["Properties"]["AvailabilityZoneId"] for name, subnet in subnets(template).items()}
    assert placed == {
        "gpu-use1-az6": "use1-az6",
        "control-plane-use1-az6": "use1-az6",
        "control-plane-use1-az4": "use1-az4",
        "system-use1-az6": "use1-az6",
        "system-use1-az4": "use1-az4",
        "public-use1-az6": "use1-az6",
        "public-use1-az4": "use1-az4",
    }
    assert not any("AvailabilityZone" in subnet["Properties"] for subnet in subnets(template).values())


def test_shipped_deployments_keep_their_groups_in_one_zone_and_their_cluster_in_two(
    shipped_deployment: Deployment,
) -> None:
    network = synthesized(NetworkStack(app(), "network", deployment=shipped_deployment))
    zones: dict[str, set[str]] = {"gpu": set(), "system": set(), "control-plane": set()}
    for subnet in resources(network, "AWS::EC2::Subnet").values():
        kind = tags(subnet)["Name"].removeprefix(f"{shipped_deployment.name}-")
        for name, placed in zones.items():
            if kind.startswith(name):
                placed.add(subnet["Properties"]["AvailabilityZoneId"])
    assert zones["gpu"] == {shipped_deployment.network.gpu_zone_id}
    assert zones["system"] == zones["control-plane"] == set(shipped_deployment.network.cluster_zone_ids)
    assert len(zones["system"]) == 2


@pytest.mark.parametrize("account", [None, "123456789012"])
def test_nothing_is_looked_up_in_aws(default_deployment: Deployment, account: str | None) -> None:
    application = app()
    NetworkStack(application, "network", deployment=replace(default_deployment, account=account))
    manifest = json.loads((Path(application.synth().directory) / "manifest.json").read_text())
    assert manifest["artifacts"]["network"]
    assert "missing" not in manifest


def test_gpu_subnet_takes_the_secondary_cidr_whole_and_waits_for_it(template: Template) -> None:
    secondary_id, secondary = only(template, "AWS::EC2::VPCCidrBlock")
    gpu = subnets(template)["gpu-use1-az6"]
    assert secondary["Properties"]["CidrBlock"] == "10.1.0.0/16"
    assert gpu["Properties"]["CidrBlock"] == "10.1.0.0/16"
    assert depends_on(gpu) == {secondary_id}


def test_no_subnet_gives_out_public_addresses(template: Template) -> None:
    assert not any(subnet["Properties"]["MapPublicIpOnLaunch"] for subnet in subnets(template).values())


def test_nodes_resolve_names(template: Template) -> None:
    _, vpc = only(template, "AWS::EC2::VPC")
    assert vpc["Properties"]["EnableDnsSupport"] is True
    assert vpc["Properties"]["EnableDnsHostnames"] is True


def test_zones_that_eks_refuses_are_refused_before_a_template_exists(synthesize: Synthesize) -> None:
    with pytest.raises(UnresolvedError, match="EKS accepts no cluster subnet in this zone"):
        synthesize(cluster_zone_ids=("use1-az6", "use1-az3"))


def test_gpu_nodes_may_live_in_a_zone_that_eks_refuses(synthesize: Synthesize) -> None:
    gpu = subnets(synthesize(gpu_zone_id="use1-az3"))["gpu-use1-az3"]
    assert gpu["Properties"]["AvailabilityZoneId"] == "use1-az3"


# -- ways out -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpu-use1-az6", "system-use1-az6", "system-use1-az4"])
def test_private_subnets_leave_through_the_nat_gateway(template: Template, name: str) -> None:
    nat_id, _ = only(template, "AWS::EC2::NatGateway")
    (route,) = routes_of(template, name)
    assert route["Properties"]["DestinationCidrBlock"] == ANYWHERE
    assert route["Properties"]["NatGatewayId"] == {"Ref": nat_id}


def test_control_plane_subnets_have_no_way_out(template: Template) -> None:
    assert routes_of(template, "control-plane-use1-az6") == []


def test_nat_gateway_sits_in_the_gpu_zone(template: Template) -> None:
    _, nat = only(template, "AWS::EC2::NatGateway")
    subnet = template["Resources"][nat["Properties"]["SubnetId"]["Ref"]]
    assert tags(subnet)["Name"].endswith("public-use1-az6")


def test_nat_gateway_sits_in_the_first_zone_when_the_gpu_zone_has_no_public_subnet(
    synthesize: Synthesize,
) -> None:
    elsewhere = synthesize(gpu_zone_id="use1-az2")
    _, nat = only(elsewhere, "AWS::EC2::NatGateway")
    subnet = elsewhere["Resources"][nat["Properties"]["SubnetId"]["Ref"]]
    assert tags(subnet)["Name"].endswith("public-use1-az6")


def test_ways_out_exist_before_something_needs_them(template: Template) -> None:
    attachment_id, _ = only(template, "AWS::EC2::VPCGatewayAttachment")
    _, nat = only(template, "AWS::EC2::NatGateway")
    routes = resources(template, "AWS::EC2::Route")
    (public_id,) = [name for name, route in routes.items() if "GatewayId" in route["Properties"]]
    (private_id,) = [name for name, route in routes.items() if "NatGatewayId" in route["Properties"]]
    assert attachment_id in depends_on(routes[public_id])
    assert public_id in depends_on(nat)
    (gpu_route,) = [
        association
        for association in resources(template, "AWS::EC2::SubnetRouteTableAssociation").values()
        if "Gpu" in text(association["Properties"]["SubnetId"])
    ]
    assert depends_on(gpu_route) == {private_id}


def test_s3_is_reached_through_a_gateway_endpoint_from_gpu_and_system_subnets(template: Template) -> None:
    _, endpoint = only(template, "AWS::EC2::VPCEndpoint")
    (table,) = endpoint["Properties"]["RouteTableIds"]
    assert endpoint["Properties"]["VpcEndpointType"] == "Gateway"
    assert endpoint["Properties"]["ServiceName"] == "com.amazonaws.us-east-1.s3"
    associated = {
        text(association["Properties"]["SubnetId"])
        for association in resources(template, "AWS::EC2::SubnetRouteTableAssociation").values()
        if association["Properties"]["RouteTableId"] == table
    }
    assert len(associated) == 3
    assert not any("ControlPlane" in subnet or "Public" in subnet for subnet in associated)


# -- closed network -----------------------------------------------------------------------------------------------

ENDPOINTS_OF_THE_FACTS = {
    "ec2",
    "ecr.api",
    "ecr.dkr",
    "sts",
    "logs",
    "monitoring",
    "ssm",
    "ssmmessages",
    "ec2messages",
    "eks-auth",
    "aps-workspaces",
    "grafana-workspace",
}


def interface_endpoints(template: Template, region: str = "us-east-1") -> dict[str, Resource]:
    return {
        endpoint["Properties"]["ServiceName"].removeprefix(f"com.amazonaws.{region}."): endpoint
        for endpoint in resources(template, "AWS::EC2::VPCEndpoint").values()
        if endpoint["Properties"]["VpcEndpointType"] == "Interface"
    }


def test_closed_network_has_no_way_to_the_internet(closed: Template) -> None:
    for resource_type in ("InternetGateway", "VPCGatewayAttachment", "NatGateway", "EIP", "Route"):
        assert not resources(closed, f"AWS::EC2::{resource_type}")
    assert not any(name.startswith("public") for name in subnets(closed))


def test_closed_network_reaches_every_service_that_nodes_and_controllers_call(closed: Template) -> None:
    services = set(interface_endpoints(closed))
    # `eks` and `codebuild`: the build that installs HyperPod's dependencies; `events` and `lambda`: functions of the
    # platform stack in the VPC; the others: controllers of the platform
    functions = {"events", "lambda"}
    wanted = functions | {
        "eks",
        "codebuild",
        "sagemaker.api",
        "elasticloadbalancing",
        "secretsmanager",
        "kms",
    }
    assert services == ENDPOINTS_OF_THE_FACTS | wanted
    assert all(
        endpoint["Properties"]["PrivateDnsEnabled"] for endpoint in interface_endpoints(closed).values()
    )


def test_endpoints_let_in_every_cidr_of_the_vpc_the_secondary_too(closed: Template) -> None:
    (group_id,) = {
        text(group)
        for endpoint in interface_endpoints(closed).values()
        for group in endpoint["Properties"]["SecurityGroupIds"]
    }
    group = closed["Resources"][group_id.removeprefix("${").removesuffix(".GroupId}")]
    allowed = {
        (rule["CidrIp"], rule["IpProtocol"], rule["FromPort"], rule["ToPort"])
        for rule in group["Properties"]["SecurityGroupIngress"]
    }
    assert allowed == {("10.192.0.0/16", "tcp", 443, 443), ("10.1.0.0/16", "tcp", 443, 443)}


@pytest.mark.parametrize(
    ("gpu_zone_id", "zones"),
    [
        ("use1-az6", ["use1-az6", "use1-az4"]),
        # no system subnet in the GPU zone: the endpoint goes into the GPU subnet as well
        ("use1-az2", ["use1-az6", "use1-az4", "use1-az2"]),
    ],
)
def test_an_endpoint_has_one_subnet_per_zone_and_one_in_the_gpu_zone(
    synthesize: Synthesize, gpu_zone_id: str, zones: list[str]
) -> None:
    network = synthesize(egress="closed", gpu_zone_id=gpu_zone_id)
    for endpoint in interface_endpoints(network).values():
        placed = [
            network["Resources"][subnet["Ref"]]["Properties"]["AvailabilityZoneId"]
            for subnet in endpoint["Properties"]["SubnetIds"]
        ]
        assert placed == zones


def test_grafana_endpoint_exists_only_where_grafana_does(default_deployment: Deployment) -> None:
    stockholm = replace(
        default_deployment,
        region="eu-north-1",
        network=replace(
            default_deployment.network,
            egress="closed",
            gpu_zone_id="eun1-az1",
            cluster_zone_ids=("eun1-az1", "eun1-az2"),
        ),
    )
    application = app()
    stack = NetworkStack(application, "network", deployment=stockholm)
    found = interface_endpoints(
        application.synth().get_stack_by_name(stack.stack_name).template, "eu-north-1"
    )
    assert "grafana-workspace" not in found
    assert "aps-workspaces" in found


def test_open_network_gets_interface_endpoints_only_when_asked(
    template: Template, synthesize: Synthesize
) -> None:
    assert not interface_endpoints(template)
    assert "ec2" in interface_endpoints(synthesize(interface_endpoints=True))


def test_closed_network_still_reaches_s3(closed: Template) -> None:
    gateways = [
        endpoint
        for endpoint in resources(closed, "AWS::EC2::VPCEndpoint").values()
        if endpoint["Properties"]["VpcEndpointType"] == "Gateway"
    ]
    assert len(gateways) == 1


# -- the EFA security group ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def efa_id(template: Template) -> str:
    return only(template, "AWS::EC2::SecurityGroup")[0]


def rules(template: Template, direction: str, peer: str) -> set[tuple[str, int | None, int | None, str]]:
    """Protocol, ports and peer of every rule resource of one direction."""
    found = set()
    for rule in resources(template, f"AWS::EC2::SecurityGroup{direction}").values():
        properties = rule["Properties"]
        peer_id = properties.get(peer, properties.get("CidrIp"))
        found.add(
            (
                properties["IpProtocol"],
                properties.get("FromPort"),
                properties.get("ToPort"),
                text(peer_id),
            )
        )
    return found


def test_efa_group_egress_to_itself_is_really_in_the_template(template: Template, efa_id: str) -> None:
    itself = f"${{{efa_id}.GroupId}}"
    assert rules(template, "Egress", "DestinationSecurityGroupId") == {
        ("-1", None, None, itself),
        ("-1", None, None, ANYWHERE),
    }


def test_efa_group_ingress_from_itself_covers_efa_and_lustre(template: Template, efa_id: str) -> None:
    itself = f"${{{efa_id}.GroupId}}"
    assert rules(template, "Ingress", "SourceSecurityGroupId") == {
        ("-1", None, None, itself),
        ("tcp", 988, 988, itself),
        ("tcp", 1018, 1023, itself),
    }


def test_every_efa_rule_belongs_to_the_efa_group(template: Template, efa_id: str) -> None:
    for direction in ("Ingress", "Egress"):
        for rule in resources(template, f"AWS::EC2::SecurityGroup{direction}").values():
            assert text(rule["Properties"]["GroupId"]) == f"${{{efa_id}.GroupId}}"


def test_efa_group_is_born_without_the_open_egress_that_would_clash_with_its_rule(
    template: Template, efa_id: str
) -> None:
    group = template["Resources"][efa_id]["Properties"]
    assert [rule["CidrIp"] for rule in group["SecurityGroupEgress"]] == ["255.255.255.255/32"]
    assert "SecurityGroupIngress" not in group


def test_efa_rules_can_be_depended_on(default_deployment: Deployment) -> None:
    stack = cdk.Stack(app(), "stack")
    network = DpdNetwork(stack, "Network", spec=default_deployment.network, name="mine")
    assert sorted(rule.cfn_resource_type for rule in network.efa_rules) == [
        "AWS::EC2::SecurityGroupEgress",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupIngress",
    ]
    assert network.gpu_route.cfn_resource_type == "AWS::EC2::SubnetRouteTableAssociation"


# -- logs, default group, tags ------------------------------------------------------------------------------------


def test_flow_logs_are_encrypted_and_kept_as_long_as_asked(synthesize: Synthesize) -> None:
    network = synthesize(flow_log_retention_days=365)
    key_id, key = only(network, "AWS::KMS::Key")
    _, flow_log = only(network, "AWS::EC2::FlowLog")
    vpc_id, _ = only(network, "AWS::EC2::VPC")
    assert flow_log["Properties"]["ResourceId"] == {"Ref": vpc_id}
    assert flow_log["Properties"]["TrafficType"] == "ALL"
    group = network["Resources"][flow_log["Properties"]["LogGroupName"]["Ref"]]["Properties"]
    assert group["RetentionInDays"] == 365
    assert text(group["KmsKeyId"]) == f"${{{key_id}.Arn}}"
    assert key["Properties"]["EnableKeyRotation"] is True


def test_the_logs_key_serves_cloudwatch_logs_of_this_region_only(template: Template) -> None:
    _, key = only(template, "AWS::KMS::Key")
    _, service = key["Properties"]["KeyPolicy"]["Statement"]
    assert service["Principal"] == {"Service": "logs.us-east-1.amazonaws.com"}
    context = service["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"]
    assert text(context) == "arn:aws:logs:us-east-1:${AWS::AccountId}:log-group:*"


def test_every_log_group_is_encrypted_and_ends(template: Template) -> None:
    groups = resources(template, "AWS::Logs::LogGroup")
    assert groups
    for group in groups.values():
        assert "KmsKeyId" in group["Properties"]
        assert group["Properties"]["RetentionInDays"] == 90


def test_the_default_security_group_loses_both_of_its_rules(template: Template) -> None:
    vpc_id, _ = only(template, "AWS::EC2::VPC")
    group = f"${{{vpc_id}.DefaultSecurityGroup}}"
    calls = {text(call["Properties"]["Create"]) for call in resources(template, "Custom::AWS").values()}
    ingress, egress = sorted(calls, key=lambda call: "Egress" in call)
    assert '"action":"revokeSecurityGroupIngress"' in ingress
    assert f'"UserIdGroupPairs":[{{"GroupId":"{group}"}}]' in ingress
    assert '"action":"revokeSecurityGroupEgress"' in egress
    assert f'"IpRanges":[{{"CidrIp":"{ANYWHERE}"}}]' in egress
    assert all(f'"GroupId":"{group}","IpPermissions":[{{"IpProtocol":"-1"' in call for call in calls)


def test_after_the_calls_the_default_security_group_has_no_rules(template: Template) -> None:
    vpc_id, _ = only(template, "AWS::EC2::VPC")
    with mock_aws():
        client = boto3.client("ec2", region_name="us-east-1")
        real_vpc_id = client.create_vpc(CidrBlock="10.192.0.0/16")["Vpc"]["VpcId"]

        def default_group() -> Any:
            (group,) = client.describe_security_groups(
                Filters=[
                    {"Name": "vpc-id", "Values": [real_vpc_id]},
                    {"Name": "group-name", "Values": ["default"]},
                ]
            )["SecurityGroups"]
            return group

        group_id = default_group()["GroupId"]
        # moto leaves out the ingress rule with which a real default group is born
        client.authorize_security_group_ingress(
            GroupId=group_id,
            IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]}],
        )
        assert default_group()["IpPermissions"]
        assert default_group()["IpPermissionsEgress"]
        for resource in resources(template, "Custom::AWS").values():
            call = json.loads(
                text(resource["Properties"]["Create"]).replace(
                    f"${{{vpc_id}.DefaultSecurityGroup}}", group_id
                )
            )
            revoke = {
                "revokeSecurityGroupIngress": client.revoke_security_group_ingress,
                "revokeSecurityGroupEgress": client.revoke_security_group_egress,
            }[call["action"]]
            revoke(**call["parameters"])
        assert default_group()["IpPermissions"] == []
        assert default_group()["IpPermissionsEgress"] == []


def test_the_group_of_a_replaced_vpc_is_closed_as_well(template: Template) -> None:
    for call in resources(template, "Custom::AWS").values():
        assert call["Properties"]["Update"] == call["Properties"]["Create"]


def test_closing_the_default_group_may_touch_no_other_group(template: Template) -> None:
    vpc_id, _ = only(template, "AWS::EC2::VPC")
    statements = [
        statement
        for policy in resources(template, "AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "ec2:" in str(statement["Action"])
    ]
    assert {statement["Action"] for statement in statements} == {
        "ec2:RevokeSecurityGroupIngress",
        "ec2:RevokeSecurityGroupEgress",
    }
    for statement in statements:
        assert text(statement["Resource"]).endswith(f":security-group/${{{vpc_id}.DefaultSecurityGroup}}")


def test_load_balancers_find_their_subnets_and_leave_the_gpu_subnet_alone(template: Template) -> None:
    roles = {
        name: {key for key in tags(subnet) if key.startswith("kubernetes.io/role/")}
        for name, subnet in subnets(template).items()
    }
    assert roles == {
        "gpu-use1-az6": set(),
        "control-plane-use1-az6": set(),
        "control-plane-use1-az4": set(),
        "system-use1-az6": {"kubernetes.io/role/internal-elb"},
        "system-use1-az4": {"kubernetes.io/role/internal-elb"},
        "public-use1-az6": {"kubernetes.io/role/elb"},
        "public-use1-az4": {"kubernetes.io/role/elb"},
    }


def test_subnets_of_the_cluster_carry_its_name(template: Template) -> None:
    tagged = {
        name
        for name, subnet in subnets(template).items()
        if tags(subnet).get("kubernetes.io/cluster/llama-3-3-70b-p5") == "shared"
    }
    assert tagged == {name for name in subnets(template) if not name.startswith("public")}


# -- removal, outputs, library use --------------------------------------------------------------------------------


def kept(template: Template) -> dict[str, set[str]]:
    """Deletion policies by type, of resources that have one."""
    policies: dict[str, set[str]] = {}
    for resource in template["Resources"].values():
        if "DeletionPolicy" in resource:
            policies.setdefault(resource["Type"], set()).add(resource["DeletionPolicy"])
    return policies


@pytest.mark.parametrize(
    ("removal", "policy"),
    [
        (Removal(), "RetainExceptOnCreate"),
        (Removal(delete_data_on_destroy=True), "RetainExceptOnCreate"),
        (Removal(confirm="llama-3-3-70b-p5"), "RetainExceptOnCreate"),
        (Removal(delete_data_on_destroy=True, confirm="another"), "RetainExceptOnCreate"),
        (Removal(delete_data_on_destroy=True, confirm="llama-3-3-70b-p5"), "Delete"),
    ],
)
def test_logs_and_their_key_go_only_after_two_acts(
    synthesize: Synthesize, removal: Removal, policy: str
) -> None:
    policies = kept(synthesize(removal=removal))
    assert policies["AWS::Logs::LogGroup"] == {policy}
    assert policies["AWS::KMS::Key"] == {policy}


def test_what_others_need_is_published(template: Template) -> None:
    parameters: Mapping[str, str] = {
        parameter["Properties"]["Name"]: text(parameter["Properties"]["Value"])
        for parameter in resources(template, "AWS::SSM::Parameter").values()
    }
    (efa_id,) = resources(template, "AWS::EC2::SecurityGroup")
    path = "/hyperpod-dpd/llama-3-3-70b-p5"
    assert set(parameters) == {
        f"{path}/vpc-id",
        f"{path}/gpu-subnet-id",
        f"{path}/system-subnet-ids",
        f"{path}/efa-security-group-id",
    }
    assert parameters[f"{path}/efa-security-group-id"] == f"${{{efa_id}.GroupId}}"
    assert parameters[f"{path}/system-subnet-ids"].count(",") == 1


def test_the_vpc_is_usable_by_other_constructs(default_deployment: Deployment) -> None:
    stack = cdk.Stack(app(), "stack")
    network = DpdNetwork(stack, "Network", spec=default_deployment.network, name="mine")
    mine = ec2.SecurityGroup(stack, "Mine", vpc=network.vpc)
    network.connections.allow_from(mine, ec2.Port.HTTPS)
    selected = network.vpc.select_subnets(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)
    assert len(selected.subnet_ids) == 2
    added = [
        rule
        for rule in resources(synthesized(stack), "AWS::EC2::SecurityGroupIngress").values()
        if rule["Properties"].get("FromPort") == 443
    ]
    assert len(added) == 1


def test_subnets_of_a_closed_network_are_isolated_for_other_constructs(
    default_deployment: Deployment,
) -> None:
    stack = cdk.Stack(app(), "stack")
    spec = replace(default_deployment.network, egress="closed")
    network = DpdNetwork(stack, "Network", spec=spec, name="mine")
    assert network.public_subnets == ()
    assert len(network.vpc.isolated_subnets) == 2
    assert network.vpc.private_subnets == []
