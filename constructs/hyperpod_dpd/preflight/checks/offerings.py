"""PRE-ZON-002: the zones offer the instance types."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

Wish = tuple[str, str, str]
"""Path into the deployment, EC2 instance type, zone id."""


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    wishes = list(_wishes(deployment))
    offered = _offered(account, sorted({name for _, name, _ in wishes}))
    for path, name, zone_id in wishes:
        if zone_id in offered[name]:
            continue
        zones = ", ".join(f"`{zone}`" for zone in sorted(offered[name]))
        yield Problem(
            path=path,
            says="the zone does not offer the instance type",
            given=f"`{name}` in `{zone_id}`",
            limit=f"offered in {zones}" if zones else f"offered in no zone of {deployment.region}",
            fix="choose such a zone; offered does not mean free, so also ask for capacity"
            if zones
            else "choose another instance type or another region",
        )


def _wishes(deployment: Deployment) -> Iterator[Wish]:
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        # EC2 knows the hardware without HyperPod's prefix
        name = group.instance_type.removeprefix("ml.")
        yield f"hyperpod.instance_groups[{index}].instance_type", name, deployment.zone_id(group)
    if creates_cluster(deployment):
        for index, zone_id in enumerate(deployment.network.cluster_zone_ids):
            path = f"network.cluster_zone_ids[{index}]"
            yield path, deployment.cluster.system_nodes.instance_type, zone_id


def _offered(account: Account, names: Sequence[str]) -> dict[str, set[str]]:
    pages = (
        account.client("ec2")
        .get_paginator("describe_instance_type_offerings")
        .paginate(
            LocationType="availability-zone-id", Filters=[{"Name": "instance-type", "Values": list(names)}]
        )
    )
    zones: dict[str, set[str]] = defaultdict(set)
    for page in pages:
        for row in page["InstanceTypeOfferings"]:
            zones[row["InstanceType"]].add(row["Location"])
    return zones


CHECK = Check(
    id="PRE-ZON-002",
    title="the zones offer the instance types",
    calls=(Call(service="ec2", operation="DescribeInstanceTypeOfferings"),),
    look=_look,
)
