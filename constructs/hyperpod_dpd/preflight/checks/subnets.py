"""PRE-NET-001: the subnets of the existing HyperPod cluster are in the right zone and have room."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    existing = deployment.cluster.existing
    assert existing is not None, "applies only with an existing cluster"
    try:
        cluster = account.client("sagemaker").describe_cluster(ClusterName=existing.hyperpod_name)
    except ClientError as error:
        if code_of(error) not in ("ResourceNotFound", "ValidationException"):
            raise
        return  # PRE-EKS-003 says so
    groups = {group["InstanceGroupName"]: group for group in cluster.get("InstanceGroups", ())}
    default = cluster.get("VpcConfig", {}).get("Subnets", [])
    ids = sorted({*default, *(subnet for group in groups.values() for subnet in _own(group))})
    rows = account.client("ec2").describe_subnets(SubnetIds=ids)["Subnets"] if ids else []
    subnets = {row["SubnetId"]: row for row in rows}
    needed: Counter[str] = Counter()
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        there = groups.get(group.name, {})
        chosen = [subnets[each] for each in _own(there) or default if each in subnets]
        zone_id = deployment.zone_id(group)
        inside = [row for row in chosen if row["AvailabilityZoneId"] == zone_id]
        if not chosen:
            yield Gap(
                what=f"the subnet of `{group.name}`",
                why=f"the HyperPod cluster `{existing.hyperpod_name}` names none",
                fix=f"look whether it has addresses for {group.count} nodes in `{zone_id}`",
            )
            continue
        if not inside:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].zone_id",
                says="the existing cluster has no subnet in the group's zone",
                given=f"`{group.name}` in `{zone_id}`",
                computed=", ".join(f"`{row['SubnetId']}` in `{row['AvailabilityZoneId']}`" for row in chosen),
                fix="set `network.gpu_zone_id` to the zone of that subnet",
            )
            continue
        missing = max(group.count - there.get("CurrentCount", 0), 0)
        needed[inside[0]["SubnetId"]] += missing * instance_type(group.instance_type).addresses_per_node
    yield from _full(needed, subnets)


def _own(group: dict[str, Any]) -> list[str]:
    subnets: list[str] = group.get("OverrideVpcConfig", {}).get("Subnets", [])
    return subnets


def _full(needed: Counter[str], subnets: dict[str, dict[str, Any]]) -> Iterator[Problem]:
    for subnet_id, addresses in needed.items():
        free = subnets[subnet_id]["AvailableIpAddressCount"]
        if addresses > free:
            yield Problem(
                path="hyperpod.instance_groups",
                says="the subnet of the existing cluster has too few free addresses",
                given=f"`{subnet_id}` ({subnets[subnet_id]['CidrBlock']})",
                computed=f"{addresses:,} addresses for the nodes that are still missing",
                limit=f"{free:,} free",
                fix="lower `count`, or free addresses: the CIDR of a subnet cannot be changed",
            )


CHECK = Check(
    id="PRE-NET-001",
    title="subnets of the existing cluster have room in the right zone",
    calls=(
        Call(service="sagemaker", operation="DescribeCluster"),
        Call(service="ec2", operation="DescribeSubnets"),
    ),
    look=_look,
    applies=lambda deployment: not creates_cluster(deployment),
)
