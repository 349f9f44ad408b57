"""PRE-QUO-004: the account may have the network interfaces of the GPU nodes."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.quotas import NETWORK_INTERFACES
from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.published import PUBLISHED_CALL, published
from hyperpod_dpd.preflight.quota import QUOTA_CALLS, shortage
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    if published(deployment, account, Parameter.HYPERPOD_ARN):
        return  # the interfaces of its nodes are counted as used
    groups = [
        (group, instance_type(group.instance_type).efa_devices)
        for group in deployment.hyperpod.instance_groups
    ]
    pages = account.client("ec2").get_paginator("describe_network_interfaces").paginate(MaxResults=1000)
    problem = shortage(
        account,
        NETWORK_INTERFACES,
        path="hyperpod.instance_groups",
        # one interface for each network card, and a card for each EFA device
        given=" + ".join(f"{group.count} × {cards} cards (`{group.name}`)" for group, cards in groups),
        needed=sum(group.count * cards for group, cards in groups),
        used=sum(len(page["NetworkInterfaces"]) for page in pages),
    )
    if problem is not None:
        yield problem


CHECK = Check(
    id="PRE-QUO-004",
    title="quotas allow the network interfaces of the GPU nodes",
    calls=(*QUOTA_CALLS, PUBLISHED_CALL, Call(service="ec2", operation="DescribeNetworkInterfaces")),
    look=_look,
    applies=creates_cluster,
)
