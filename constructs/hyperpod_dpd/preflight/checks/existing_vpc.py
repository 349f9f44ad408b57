"""PRE-NET-002: the existing VPC is there, and is what the file says."""

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.preflight.vpc import existing_vpc, uses_existing_vpc
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment, ExistingVpc

_PATH = "network.existing.vpc_id"
_DNS = ("enableDnsSupport", "enableDnsHostnames")


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    existing = existing_vpc(deployment)
    given = f"`vpc_id: {existing.vpc_id}`"
    try:
        (vpc,) = account.client("ec2").describe_vpcs(VpcIds=[existing.vpc_id])["Vpcs"]
    except ClientError as error:
        if code_of(error) != "InvalidVpcID.NotFound":
            raise
        yield Problem(
            path=_PATH,
            says="the region has no such VPC",
            given=given,
            fix=f"`aws ec2 describe-vpcs --region {deployment.region}` lists those there are",
        )
        return
    if vpc["OwnerId"] != account.account_id:
        yield Problem(
            path=_PATH,
            says="the VPC is shared from another account",
            given=given,
            computed=f"its owner is {vpc['OwnerId']}",
            limit=f"{account.account_id}: permissions of nodes, builds and controllers name subnets of this account",
            fix="ask the owner for a VPC in this account, attached to the same transit gateway",
        )
    yield from _ranges(existing, vpc)
    for attribute in _DNS:
        answer = account.client("ec2").describe_vpc_attribute(VpcId=existing.vpc_id, Attribute=attribute)
        if not answer[attribute[0].upper() + attribute[1:]]["Value"]:
            yield Problem(
                path=_PATH,
                says="names of private endpoints do not resolve in the VPC",
                given=given,
                computed=f"its `{attribute}` is off",
                fix="let its owner switch it on (`aws ec2 modify-vpc-attribute`)",
            )


def _ranges(existing: ExistingVpc, vpc: dict[str, Any]) -> Iterator[Problem]:
    has = [
        row["CidrBlock"]
        for row in vpc["CidrBlockAssociationSet"]
        if row["CidrBlockState"]["State"] in ("associating", "associated")
    ]
    foreign = [cidr for cidr in existing.cidrs if cidr not in has]
    missing = [cidr for cidr in has if cidr not in existing.cidrs]
    if not foreign and not missing:
        return
    differences = [f"lacks {', '.join(missing)}"] * bool(missing) + [
        f"names {', '.join(foreign)}, which the VPC does not have"
    ] * bool(foreign)
    yield Problem(
        path="network.existing.cidrs",
        says="the CIDRs of the VPC are others",
        given=f"`cidrs: [{', '.join(existing.cidrs)}]`",
        computed=f"the list {' and '.join(differences)}",
        fix=f"write `cidrs: [{', '.join(has)}]`: endpoints and network policies let these in and no others",
    )


CHECK = Check(
    id="PRE-NET-002",
    title="the existing VPC is there, with the CIDRs of the file and with DNS",
    calls=(
        Call(service="ec2", operation="DescribeVpcs"),
        Call(service="ec2", operation="DescribeVpcAttribute"),
    ),
    look=_look,
    applies=uses_existing_vpc,
)
