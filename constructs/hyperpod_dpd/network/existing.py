"""A VPC that somebody else owns, and what a deployment adds to it."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from hyperpod_dpd.network.efa import EfaSecurityGroup
from hyperpod_dpd.network.endpoints import endpoints_for
from hyperpod_dpd.network.interface import ExistingNetwork
from hyperpod_dpd.spec import ExistingVpc as ExistingVpcSpec
from hyperpod_dpd.spec import Network


class ExistingVpc(Construct):
    """Puts the EFA security group into a VPC of somebody else, and interface endpoints where they are asked for.

    Nothing of the VPC is created, changed or looked up: subnets, routes, flow logs, tags and the gateway endpoint of S3
    are its owner's, and `dpd preflight` looks at them.

    Attributes:
        network: the VPC with the group, as clusters take it.
    """

    network: ExistingNetwork

    def __init__(
        self, scope: Construct, construct_id: str, *, spec: Network, vpc: ExistingVpcSpec, region: str
    ) -> None:
        """Add to the VPC.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            spec: zones, and whether endpoints are made.
            vpc: ids of the VPC and its subnets.
            region: name of the region, which decides what endpoints there are.

        Raises:
            UnknownCatalogEntryError: endpoints are asked for, and the catalog has no such region.
        """
        super().__init__(scope, construct_id)
        # nothing here asks for routes
        cdk.Annotations.of(self).acknowledge_warning(
            "@aws-cdk/aws-ec2:noSubnetRouteTableId", "routes belong to the VPC's owner"
        )
        ids = {*vpc.system_subnet_ids, *vpc.control_plane_subnet_ids, vpc.gpu_subnet_id}
        subnets = {
            subnet_id: ec2.Subnet.from_subnet_id(self, subnet_id, subnet_id) for subnet_id in sorted(ids)
        }
        interface = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=vpc.vpc_id,
            # asked for by CDK, which wants names, and used by nothing here
            availability_zones=list(spec.cluster_zone_ids),
            isolated_subnet_ids=list(vpc.system_subnet_ids),
        )
        efa = EfaSecurityGroup(self, "Efa", vpc=interface)
        self.network = ExistingNetwork(
            vpc=interface,
            vpc_cidrs=vpc.cidrs,
            cluster_subnets=[subnets[each] for each in vpc.control_plane_subnet_ids],
            system_subnets=[subnets[each] for each in vpc.system_subnet_ids],
            gpu_subnet=subnets[vpc.gpu_subnet_id],
            efa_security_group=efa.security_group,
            efa_rules=efa.rules,
        )
        if spec.has_interface_endpoints:
            endpoints_for(self, spec=spec, network=self.network, region=region)
