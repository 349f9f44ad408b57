"""A subnet placed by availability-zone id."""

from ipaddress import IPv4Network

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct


class ZoneSubnet(Construct):
    """One subnet in the zone with a given id, and its route table.

    `ec2.Subnet` takes a zone name, which is another building in every account.

    Attributes:
        resource: the L1 subnet.
        association: what gives the subnet its routes, to depend on.
        subnet: the subnet as other constructs take it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.CfnVPC,
        zone_id: str,
        cidr: IPv4Network,
        routes: ec2.CfnRouteTable,
        name: str,
        tags: dict[str, str] | None = None,
    ) -> None:
        """Create the subnet.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            vpc: the VPC.
            zone_id: availability-zone id, such as `use1-az6`.
            cidr: its addresses.
            routes: its route table.
            name: value of its `Name` tag.
            tags: further tags.
        """
        super().__init__(scope, construct_id)
        self.resource = ec2.CfnSubnet(
            self,
            "Subnet",
            vpc_id=vpc.ref,
            availability_zone_id=zone_id,
            cidr_block=str(cidr),
            map_public_ip_on_launch=False,
            tags=[cdk.CfnTag(key=key, value=value) for key, value in {"Name": name, **(tags or {})}.items()],
        )
        self.association = ec2.CfnSubnetRouteTableAssociation(
            self, "Routes", subnet_id=self.resource.ref, route_table_id=routes.ref
        )
        self.subnet = ec2.Subnet.from_subnet_attributes(
            self,
            "Interface",
            subnet_id=self.resource.ref,
            availability_zone=self.resource.attr_availability_zone,
            ipv4_cidr_block=str(cidr),
            route_table_id=routes.ref,
        )
