"""The EFA security group by itself, in somebody else's VPC."""

import json
import re

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

from hyperpod_dpd.network import EfaSecurityGroup
from tests.support.template import app, only, resources, synthesized, text


def test_group_works_in_a_vpc_of_your_own_and_lets_https_in_where_asked() -> None:
    stack = cdk.Stack(app(), "stack")
    vpc = ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-1", availability_zones=["eu-west-1a"])
    efa = EfaSecurityGroup(stack, "Efa", vpc=vpc, https_from_cidrs=["10.0.0.0/16", "10.1.0.0/16"])
    template = synthesized(stack)

    group_id, group = only(template, "AWS::EC2::SecurityGroup")
    assert group["Properties"]["VpcId"] == "vpc-1"
    ingress = resources(template, "AWS::EC2::SecurityGroupIngress").values()
    https = {
        rule["Properties"]["CidrIp"]
        for rule in ingress
        if (rule["Properties"].get("FromPort"), rule["Properties"].get("ToPort")) == (443, 443)
    }
    assert https == {"10.0.0.0/16", "10.1.0.0/16"}
    assert len(efa.rules) == len(ingress) + len(resources(template, "AWS::EC2::SecurityGroupEgress"))
    assert stack.resolve(efa.security_group.security_group_id) == {"Fn::GetAtt": [group_id, "GroupId"]}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("10.0.0.0", "given `10.0.0.0` without a length. help: give `10.0.0.0/32` for one address"),
        ("10.0.0.0/33", "given `10.0.0.0/33`, '33' is not a valid netmask. help: give one such as"),
        ("fd00::/8", "given `fd00::/8`, "),
        ("", "given ``, "),
    ],
)
def test_what_is_no_range_of_addresses_is_refused(given: str, says: str) -> None:
    stack = cdk.Stack(app(), "stack")
    vpc = ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-1", availability_zones=["eu-west-1a"])
    with pytest.raises(ValueError, match=rf"^no range of IPv4 addresses: {re.escape(says)}"):
        EfaSecurityGroup(stack, "Efa", vpc=vpc, https_from_cidrs=[given])


def test_the_range_of_a_vpc_may_be_known_to_cloudformation_only() -> None:
    stack = cdk.Stack(app(), "stack")
    vpc = ec2.Vpc(stack, "Vpc", max_azs=1)
    EfaSecurityGroup(stack, "Efa", vpc=vpc, https_from_cidrs=[vpc.vpc_cidr_block])
    assert "CidrBlock" in json.dumps(resources(synthesized(stack), "AWS::EC2::SecurityGroupIngress"))


def test_a_vpc_that_was_not_looked_up_yet_is_taken() -> None:
    stack = cdk.Stack(app(), "stack", env=cdk.Environment(account="123456789012", region="eu-west-1"))
    vpc = ec2.Vpc.from_lookup(stack, "Vpc", vpc_id="vpc-1")
    efa = EfaSecurityGroup(stack, "Efa", vpc=vpc, https_from_cidrs=[vpc.vpc_cidr_block])
    assert len(efa.rules) > 4


def test_a_rule_of_your_own_joins_the_others() -> None:
    stack = cdk.Stack(app(), "stack")
    vpc = ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-1", availability_zones=["eu-west-1a"])
    EfaSecurityGroup(stack, "Efa", vpc=vpc).connections.allow_from(
        ec2.Peer.ipv4("10.9.0.0/16"), ec2.Port.tcp(22)
    )
    template = synthesized(stack)

    _, group = only(template, "AWS::EC2::SecurityGroup")
    assert [text(rule["CidrIp"]) for rule in group["Properties"]["SecurityGroupIngress"]] == ["10.9.0.0/16"]
