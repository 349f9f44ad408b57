"""PRE-QUO-003: the account may have one more VPC, with what belongs to it."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.endpoints import endpoint_services
from hyperpod_dpd.catalog.quotas import (
    CIDRS_PER_VPC,
    ELASTIC_ADDRESSES,
    ENDPOINTS_PER_VPC,
    INTERNET_GATEWAYS,
    VPCS,
)
from hyperpod_dpd.catalog.regions import region
from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap, creates_network
from hyperpod_dpd.preflight.published import PUBLISHED_CALL, published
from hyperpod_dpd.preflight.quota import QUOTA_CALLS, shortage
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    if published(deployment, account, Parameter.VPC_ID):
        return  # what it takes is counted as used already
    client = account.client("ec2")
    network = deployment.network
    vpcs = sum(len(page["Vpcs"]) for page in client.get_paginator("describe_vpcs").paginate())
    yield from _unless_enough(
        shortage(account, VPCS, path="network", given="a VPC of its own", needed=1, used=vpcs)
    )
    yield from _unless_enough(
        shortage(
            account,
            CIDRS_PER_VPC,
            path="network.gpu_cidr",
            given=f"`cidr: {network.cidr}` and `gpu_cidr: {network.gpu_cidr}`",
            needed=len(network.vpc_cidrs),
        )
    )
    if network.egress == "nat":
        gateways = sum(
            len(page["InternetGateways"])
            for page in client.get_paginator("describe_internet_gateways").paginate()
        )
        given = "`egress: nat`"
        yield from _unless_enough(
            shortage(account, INTERNET_GATEWAYS, path="network.egress", given=given, needed=1, used=gateways)
        )
        addresses = len(client.describe_addresses()["Addresses"])
        yield from _unless_enough(
            shortage(account, ELASTIC_ADDRESSES, path="network.egress", given=given, needed=1, used=addresses)
        )
    if network.has_interface_endpoints:
        services = endpoint_services(region(deployment.region))
        yield from _unless_enough(
            shortage(
                account,
                ENDPOINTS_PER_VPC,
                path="network.interface_endpoints",
                given=f"interface endpoints of {len(services)} services",
                needed=len(services),
            )
        )


def _unless_enough(problem: Problem | None) -> Iterator[Problem]:
    if problem is not None:
        yield problem


CHECK = Check(
    id="PRE-QUO-003",
    title="quotas allow one more VPC and what belongs to it",
    calls=(
        *QUOTA_CALLS,
        PUBLISHED_CALL,
        Call(service="ec2", operation="DescribeVpcs"),
        Call(service="ec2", operation="DescribeInternetGateways"),
        Call(service="ec2", operation="DescribeAddresses"),
    ),
    look=_look,
    applies=creates_network,
)
