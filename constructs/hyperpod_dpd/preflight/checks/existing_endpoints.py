"""PRE-NET-006: what a closed network calls has an endpoint, and none is made twice."""

from collections.abc import Collection, Iterator
from typing import Any

from hyperpod_dpd.catalog.endpoints import endpoint_services
from hyperpod_dpd.catalog.regions import region
from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.published import PUBLISHED_CALL, published
from hyperpod_dpd.preflight.vpc import (
    ENDPOINTS_CALL,
    ROUTES_CALL,
    endpoints,
    existing_vpc,
    made_endpoints,
    node_subnets,
    route_table_of,
    route_tables,
    service_of,
    uses_existing_vpc,
)
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    existing = existing_vpc(deployment)
    made = made_endpoints(deployment)
    rows = [row for row in endpoints(account, existing.vpc_id) if row["VpcEndpointType"] == "Interface"]
    if made and not published(deployment, account, Parameter.VPC_ID):
        yield from _twice(made, rows)
    needed = set(existing.endpoint_services)
    if deployment.network.egress == "closed":
        needed |= {*endpoint_services(region(deployment.region), without=made)}
    unseen = sorted(needed - {service_of(row) for row in rows})
    if unseen:
        yield _unseen(deployment, account, unseen)


def _twice(made: Collection[str], rows: list[dict[str, Any]]) -> Iterator[Problem]:
    taken = sorted({service_of(row) for row in rows if row.get("PrivateDnsEnabled")} & {*made})
    if taken:
        yield Problem(
            path="network.interface_endpoints",
            says="the VPC has some of these endpoints already, and EC2 refuses a second one with the same private name",
            given="`interface_endpoints: true`",
            computed=f"there are {_listed(taken)}",
            fix=f"add `endpoint_services: [{', '.join(taken)}]` to `network.existing`",
        )


def _unseen(deployment: Deployment, account: Account, services: list[str]) -> Problem | Gap:
    existing = existing_vpc(deployment)
    # the name of `ecr.api` begins with `api.ecr`
    name = ".".join(reversed(services[0].split(".")))
    if _leads_elsewhere(deployment, account):
        return Gap(
            what=f"the endpoints of {_listed(services)}",
            why=f"`{existing.vpc_id}` has none; they may be in another VPC to which its routes lead",
            fix=f"see from a node subnet that names such as `{name}.{deployment.region}.amazonaws.com` have "
            "private addresses there, or set `network.interface_endpoints: true`",
        )
    return Problem(
        path="network.existing",
        says="what nodes and controllers call has no endpoint, and no route leads out of the VPC",
        given=f"`vpc_id: {existing.vpc_id}` with `egress: {deployment.network.egress}`",
        computed=f"none of {_listed(services)}",
        fix="let the owner of the VPC make them, or set `network.interface_endpoints: true`",
    )


def _leads_elsewhere(deployment: Deployment, account: Account) -> bool:
    """Return whether a route of a node subnet leads to another network: endpoints are often in one for all VPCs."""
    existing = existing_vpc(deployment)
    tables = route_tables(account, existing.vpc_id)
    found = [route_table_of(named.subnet_id, tables) for named in node_subnets(deployment.network, existing)]
    return any(
        table is None
        or any(not route.get("GatewayId", "").startswith(("local", "vpce-")) for route in table["Routes"])
        for table in found
    )


def _listed(services: list[str]) -> str:
    return ", ".join(f"`{service}`" for service in services)


CHECK = Check(
    id="PRE-NET-006",
    title="the existing VPC has the endpoints that a closed network needs, and none that is made again",
    calls=(ENDPOINTS_CALL, ROUTES_CALL, PUBLISHED_CALL),
    look=_look,
    applies=lambda deployment: (
        uses_existing_vpc(deployment)
        and (deployment.network.egress == "closed" or bool(made_endpoints(deployment)))
    ),
)
