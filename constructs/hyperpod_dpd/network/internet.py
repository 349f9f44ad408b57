"""The way to the internet: one NAT gateway behind an internet gateway."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from hyperpod_dpd.derive.addresses import AddressPlan
from hyperpod_dpd.network.subnet import ZoneSubnet

_ANYWHERE = "0.0.0.0/0"


class InternetAccess(Construct):
    """Public subnets, an internet gateway, and a NAT gateway for the private route table.

    Attributes:
        subnets: the public subnets by zone id.
        private_route: the private route table's way out, to depend on.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.CfnVPC,
        plan: AddressPlan,
        gpu_zone_id: str,
        private_routes: ec2.CfnRouteTable,
        name: str,
    ) -> None:
        """Create the way out.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            vpc: the VPC.
            plan: the addresses.
            gpu_zone_id: zone of the GPU nodes; the NAT gateway goes there when it has a public subnet, because
                traffic to another zone costs.
            private_routes: route table whose default route becomes the NAT gateway.
            name: prefix of `Name` tags.
        """
        super().__init__(scope, construct_id)
        gateway = ec2.CfnInternetGateway(self, "Gateway", tags=[cdk.CfnTag(key="Name", value=name)])
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "Attachment", vpc_id=vpc.ref, internet_gateway_id=gateway.ref
        )
        routes = ec2.CfnRouteTable(
            self, "Routes", vpc_id=vpc.ref, tags=[cdk.CfnTag(key="Name", value=f"{name}-public")]
        )
        public_route = ec2.CfnRoute(
            self,
            "Route",
            route_table_id=routes.ref,
            destination_cidr_block=_ANYWHERE,
            gateway_id=gateway.ref,
        )
        public_route.add_resource_dependency(attachment)
        self.subnets = {
            zone_id: ZoneSubnet(
                self,
                f"Public-{zone_id}",
                vpc=vpc,
                zone_id=zone_id,
                cidr=addresses.public,
                routes=routes,
                name=f"{name}-public-{zone_id}",
                # internet-facing load balancers find their subnets by this tag
                tags={"kubernetes.io/role/elb": "1"},
            )
            for zone_id, addresses in plan.zones.items()
        }
        nat_zone = gpu_zone_id if gpu_zone_id in self.subnets else next(iter(self.subnets))
        address = ec2.CfnEIP(self, "NatAddress", domain="vpc", tags=[cdk.CfnTag(key="Name", value=name)])
        address.add_resource_dependency(attachment)
        nat = ec2.CfnNatGateway(
            self,
            "Nat",
            subnet_id=self.subnets[nat_zone].resource.ref,
            allocation_id=address.attr_allocation_id,
            tags=[cdk.CfnTag(key="Name", value=name)],
        )
        # without the route the gateway comes up in a subnet that leads nowhere
        nat.add_resource_dependency(public_route)
        nat.add_resource_dependency(self.subnets[nat_zone].association)
        self.private_route = ec2.CfnRoute(
            self,
            "PrivateRoute",
            route_table_id=private_routes.ref,
            destination_cidr_block=_ANYWHERE,
            nat_gateway_id=nat.ref,
        )
