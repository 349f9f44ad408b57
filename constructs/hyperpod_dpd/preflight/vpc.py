"""What the account knows about a VPC that somebody else owns."""

from collections.abc import Iterator, Mapping
from typing import Any

from hyperpod_dpd.catalog.endpoints import endpoint_services
from hyperpod_dpd.catalog.regions import region
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import creates_cluster
from hyperpod_dpd.spec import Deployment, ExistingVpc, Network
from hyperpod_dpd.spec.value import record

SUBNETS_CALL = Call(service="ec2", operation="DescribeSubnets")
"""What `subnets` calls."""

ENDPOINTS_CALL = Call(service="ec2", operation="DescribeVpcEndpoints")
"""What `endpoints` calls."""

ROUTES_CALL = Call(service="ec2", operation="DescribeRouteTables")
"""What `route_tables` calls."""

ANYWHERE = "0.0.0.0/0"


@record
class NamedSubnet:
    """A subnet, where the file names it."""

    path: str
    subnet_id: str
    zone_id: str
    """Zone in which it has to be."""


def uses_existing_vpc(deployment: Deployment) -> bool:
    """Whether the deployment names a VPC that is there."""
    return deployment.network.existing is not None


def existing_vpc(deployment: Deployment) -> ExistingVpc:
    """Return the VPC of a deployment to which a check of such VPCs applies."""
    existing = deployment.network.existing
    assert existing is not None, "applies only with an existing VPC"
    return existing


def made_endpoints(deployment: Deployment) -> tuple[str, ...]:
    """Return the services of which the deployment makes an interface endpoint in an existing VPC."""
    network = deployment.network
    if network.existing is None or not network.has_interface_endpoints or not creates_cluster(deployment):
        return ()
    return endpoint_services(region(deployment.region), without=network.existing.endpoint_services)


def node_subnets(network: Network, existing: ExistingVpc) -> tuple[NamedSubnet, ...]:
    """Return the subnets in which nodes, builds and functions run."""
    gpu = NamedSubnet(
        path="network.existing.gpu_subnet_id",
        subnet_id=existing.gpu_subnet_id,
        zone_id=network.gpu_zone_id,
    )
    return (gpu, *_listed("system_subnet_ids", existing.system_subnet_ids, network))


def named_subnets(network: Network, existing: ExistingVpc) -> tuple[NamedSubnet, ...]:
    """Return every subnet that the file names."""
    return (
        *node_subnets(network, existing),
        *_listed("cluster_subnet_ids", existing.cluster_subnet_ids, network),
        *_listed("load_balancer_subnet_ids", existing.load_balancer_subnet_ids, network),
    )


def _listed(key: str, ids: tuple[str, ...] | None, network: Network) -> Iterator[NamedSubnet]:
    # rules refuse a list of another length
    for index, (subnet_id, zone_id) in enumerate(zip(ids or (), network.cluster_zone_ids, strict=False)):
        yield NamedSubnet(path=f"network.existing.{key}[{index}]", subnet_id=subnet_id, zone_id=zone_id)


def subnets(account: Account, vpc: ExistingVpc, network: Network) -> dict[str, dict[str, Any]]:
    """Return EC2's rows of the subnets that the file names and the account sees, by id."""
    ids = sorted({each.subnet_id for each in named_subnets(network, vpc)})
    # a filter leaves out what is not there, where ids of it would fail the whole call
    rows = account.client("ec2").describe_subnets(Filters=[{"Name": "subnet-id", "Values": ids}])["Subnets"]
    return {row["SubnetId"]: row for row in rows}


def endpoints(account: Account, vpc_id: str) -> list[dict[str, Any]]:
    """Return EC2's rows of the VPC's endpoints that work or are being made."""
    pages = (
        account.client("ec2")
        .get_paginator("describe_vpc_endpoints")
        .paginate(Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])
    )
    rows = [row for page in pages for row in page["VpcEndpoints"]]
    return [row for row in rows if row["State"].lower() in ("available", "pending", "pendingacceptance")]


def service_of(endpoint: dict[str, Any]) -> str:
    """Return the service of an endpoint without the region, such as `ecr.api`."""
    return ".".join(endpoint["ServiceName"].split(".")[3:])


def route_tables(account: Account, vpc_id: str) -> dict[str | None, dict[str, Any]]:
    """Return EC2's rows of the VPC's route tables by subnet; under None the main one, which every other subnet has."""
    pages = (
        account.client("ec2")
        .get_paginator("describe_route_tables")
        .paginate(Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])
    )
    return {
        association.get("SubnetId"): table
        for page in pages
        for table in page["RouteTables"]
        for association in table.get("Associations", ())
        if association.get("Main") or "SubnetId" in association
    }


def route_table_of(subnet_id: str, tables: Mapping[str | None, dict[str, Any]]) -> dict[str, Any] | None:
    """Return the one of `route_tables` that a subnet has; None where the account sees neither its own nor the main one."""
    return tables.get(subnet_id) or tables.get(None)
