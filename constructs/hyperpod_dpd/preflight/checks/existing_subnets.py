"""PRE-NET-003: the subnets of the existing VPC are in their zones, and nodes get no public address."""

from collections.abc import Iterator

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.vpc import (
    SUBNETS_CALL,
    existing_vpc,
    named_subnets,
    node_subnets,
    subnets,
    uses_existing_vpc,
)
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    network, existing = deployment.network, existing_vpc(deployment)
    rows = subnets(account, existing, network)
    for named in named_subnets(network, existing):
        row, given = rows.get(named.subnet_id), f"`{named.subnet_id}`"
        if row is None:
            yield Problem(
                path=named.path,
                says="the region has no such subnet",
                given=given,
                fix=f"`aws ec2 describe-subnets --filters Name=vpc-id,Values={existing.vpc_id}` lists those there are",
            )
            continue
        if row["VpcId"] != existing.vpc_id:
            yield Problem(
                path=named.path,
                says="the subnet belongs to another VPC",
                given=given,
                computed=f"it is in `{row['VpcId']}`",
                limit=f"`vpc_id: {existing.vpc_id}`",
                fix="name a subnet of that VPC",
            )
        if row["AvailabilityZoneId"] != named.zone_id:
            yield Problem(
                path=named.path,
                says="the subnet is in another zone",
                given=given,
                computed=f"it is in `{row['AvailabilityZoneId']}`",
                limit=f"`{named.zone_id}`",
                fix="name a subnet of that zone; lists follow the order of `network.cluster_zone_ids`",
            )
    for named in node_subnets(network, existing):
        if rows.get(named.subnet_id, {}).get("MapPublicIpOnLaunch"):
            yield Problem(
                path=named.path,
                says="the subnet gives out public addresses: HyperPod runs in private subnets only",
                given=f"`{named.subnet_id}` with `MapPublicIpOnLaunch: true`",
                fix="name a private subnet",
            )


CHECK = Check(
    id="PRE-NET-003",
    title="the subnets of the existing VPC belong to it, are in their zones, and private",
    calls=(SUBNETS_CALL,),
    look=_look,
    applies=uses_existing_vpc,
)
