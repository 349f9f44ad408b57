"""PRE-NET-005: the node subnets of the existing VPC lead where nodes have to go."""

from collections.abc import Iterator
from typing import Any

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.vpc import (
    ANYWHERE,
    ENDPOINTS_CALL,
    ROUTES_CALL,
    NamedSubnet,
    endpoints,
    existing_vpc,
    node_subnets,
    route_table_of,
    route_tables,
    service_of,
    uses_existing_vpc,
)
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment, ExistingVpc


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    existing = existing_vpc(deployment)
    tables = route_tables(account, existing.vpc_id)
    s3 = [row for row in endpoints(account, existing.vpc_id) if service_of(row) == "s3"]
    yield from _private_names(existing, s3)
    for named in node_subnets(deployment.network, existing):
        table = route_table_of(named.subnet_id, tables)
        if table is None:
            yield Gap(
                what=f"the routes of `{named.subnet_id}`",
                why="the account sees no route table of it",
                fix="ask the owner of the VPC for its default route and the gateway endpoint of S3",
            )
            continue
        if deployment.network.egress == "nat":
            yield from _way_out(named, table)
        if not any(table["RouteTableId"] in endpoint.get("RouteTableIds", ()) for endpoint in s3):
            yield Problem(
                path=named.path,
                says="the subnet has no gateway endpoint of S3, from which scripts, weights and image layers come",
                given=f"`{named.subnet_id}` with `{table['RouteTableId']}`",
                fix=f"`aws ec2 create-vpc-endpoint --vpc-id {existing.vpc_id} "
                f"--service-name com.amazonaws.{deployment.region}.s3 --route-table-ids {table['RouteTableId']}`",
            )


def _way_out(named: NamedSubnet, table: dict[str, Any]) -> Iterator[Problem]:
    route = next((each for each in table["Routes"] if each.get("DestinationCidrBlock") == ANYWHERE), None)
    given = f"`{named.subnet_id}` with `{table['RouteTableId']}`, and `egress: nat`"
    if route is None:
        yield Problem(
            path=named.path,
            says="the subnet has no default route",
            given=given,
            fix="let the owner of the VPC add one to a NAT or transit gateway, or set `network.egress: closed`",
        )
    elif route.get("State") == "blackhole":
        yield Problem(
            path=named.path,
            says="the default route of the subnet leads nowhere",
            given=given,
            computed="its state is `blackhole`: the gateway is gone",
            fix="let the owner of the VPC mend it",
        )
    elif route.get("GatewayId", "").startswith("igw-"):
        yield Problem(
            path=named.path,
            says="the default route leads to an internet gateway, which nodes without a public address cannot use",
            given=given,
            computed=f"`{route['GatewayId']}`",
            fix="name a private subnet, with a default route to a NAT or transit gateway",
        )


def _private_names(existing: ExistingVpc, s3: list[dict[str, Any]]) -> Iterator[Problem]:
    """Find an interface endpoint whose private name hides the gateway: policies keep pods from addresses of the VPC."""
    for endpoint in (row for row in s3 if row["VpcEndpointType"] == "Interface"):
        inbound_only = endpoint.get("DnsOptions", {}).get("PrivateDnsOnlyForInboundResolverEndpoint")
        if endpoint.get("PrivateDnsEnabled") and not inbound_only:
            yield Problem(
                path="network.existing.vpc_id",
                says="names of S3 lead to addresses of the VPC, which network policies keep from workers",
                given=f"`{existing.vpc_id}`",
                computed=f"`{endpoint['VpcEndpointId']}` has private DNS for the whole VPC",
                fix="let its owner set `PrivateDnsOnlyForInboundResolverEndpoint`, so that the VPC itself uses the gateway",
            )


CHECK = Check(
    id="PRE-NET-005",
    title="the node subnets of the existing VPC have a way out and to S3",
    calls=(ROUTES_CALL, ENDPOINTS_CALL),
    look=_look,
    applies=uses_existing_vpc,
)
