"""Interface endpoints: how a network without a way to the internet reaches AWS."""

from collections.abc import Sequence
from typing import Annotated

import annotated_types as at
import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from hyperpod_dpd.catalog.endpoints import endpoint_services
from hyperpod_dpd.catalog.regions import region as catalog_region
from hyperpod_dpd.network.interface import ClusterNetwork
from hyperpod_dpd.spec import Network
from hyperpod_dpd.spec.arguments import checked


@jsii.implements(ec2.IConnectable)
class InterfaceEndpoints(Construct):
    """One private endpoint per AWS service, and a security group that lets the whole VPC in."""

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        vpc_cidrs: Annotated[Sequence[str], at.MinLen(1)],
        subnets: Annotated[Sequence[ec2.ISubnet], at.MinLen(1)],
        region: str,
        existing_services: Sequence[str] = (),
    ) -> None:
        """Create the endpoints.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            vpc: the VPC; DNS support and DNS host names are on.
            vpc_cidrs: every CIDR of the VPC. GPU nodes live in the secondary one.
            subnets: where the endpoints' interfaces go; at most one subnet per zone, which is a limit of endpoints.
            region: name of the region, which decides what services there are.
            existing_services: services that have an endpoint in the VPC already; a second one would be refused, because
                its private name is taken.

        Raises:
            UnknownCatalogEntryError: the catalog has no such region.
        """
        super().__init__(scope, construct_id)
        self._group = group = ec2.SecurityGroup(
            self,
            "Group",
            vpc=vpc,
            description="HTTPS from the VPC to interface endpoints",
            allow_all_outbound=False,
        )
        for cidr in vpc_cidrs:
            group.add_ingress_rule(ec2.Peer.ipv4(cidr), ec2.Port.HTTPS, "HTTPS from the VPC")
        for service in endpoint_services(catalog_region(region), without=existing_services):
            ec2.CfnVPCEndpoint(
                self,
                service,
                vpc_id=vpc.vpc_id,
                vpc_endpoint_type="Interface",
                service_name=f"com.amazonaws.{cdk.Stack.of(self).region}.{service}",
                subnet_ids=[subnet.subnet_id for subnet in subnets],
                security_group_ids=[group.security_group_id],
                private_dns_enabled=True,
            )

    @property
    def connections(self) -> ec2.Connections:
        """Connections of that group, for callers from outside the VPC."""
        return self._group.connections


def endpoints_for(
    scope: Construct, *, spec: Network, network: ClusterNetwork, region: str
) -> InterfaceEndpoints:
    """Create the endpoints that `spec` asks for in `network`, whose system subnets are one for each zone of the cluster."""
    # an endpoint takes one subnet per zone, and the system subnet of the GPU zone serves the GPU nodes too
    elsewhere = (network.gpu_subnet,) if spec.gpu_zone_is_apart else ()
    return InterfaceEndpoints(
        scope,
        "Endpoints",
        vpc=network.vpc,
        vpc_cidrs=network.vpc_cidrs,
        subnets=(*network.system_subnets, *elsewhere),
        region=region,
        existing_services=spec.existing.endpoint_services if spec.existing else (),
    )
