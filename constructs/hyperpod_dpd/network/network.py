"""The VPC of a deployment."""

from collections.abc import Sequence

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from hyperpod_dpd.catalog.regions import region_of_zone
from hyperpod_dpd.derive.addresses import address_plan
from hyperpod_dpd.network.default_group import ClosedDefaultSecurityGroup
from hyperpod_dpd.network.efa import EfaSecurityGroup
from hyperpod_dpd.network.endpoints import endpoints_for
from hyperpod_dpd.network.internet import InternetAccess
from hyperpod_dpd.network.subnet import ZoneSubnet
from hyperpod_dpd.security.logs import log_group, logs_key
from hyperpod_dpd.spec import Network
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import NonEmptyStr


@jsii.implements(ec2.IConnectable)
class DpdNetwork(Construct):
    """VPC with one GPU subnet, subnets for control plane and system nodes, and one way out, or none.

    Zones are given by id and nothing is looked up in AWS at synthesis. `ec2.Vpc` can do neither.

    Attributes:
        vpc: the VPC, with its system subnets as private ones (isolated ones in a closed network).
        vpc_cidrs: every CIDR of the VPC.
        cluster_subnets: subnets of the EKS control plane.
        system_subnets: private subnets of the system nodes.
        public_subnets: public subnets; none in a closed network.
        gpu_subnet: private subnet of every GPU group.
        gpu_route: what gives the GPU subnet its routes, to depend on.
        efa_security_group: security group of GPU nodes and control plane.
        efa_rules: rules of that group, to depend on.
    """

    vpc: ec2.IVpc
    vpc_cidrs: Sequence[str]
    cluster_subnets: Sequence[ec2.ISubnet]
    system_subnets: Sequence[ec2.ISubnet]
    public_subnets: Sequence[ec2.ISubnet]
    gpu_subnet: ec2.ISubnet
    gpu_route: cdk.CfnResource
    efa_security_group: ec2.ISecurityGroup
    efa_rules: Sequence[cdk.CfnResource]

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: Network,
        name: NonEmptyStr,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create the network.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            spec: addresses, zones, way out.
            name: name of the EKS cluster; subnets are tagged with it.
            removal_policy: what happens to the flow logs and their key when the stack goes.

        Raises:
            UnresolvedError: addresses or zones of `spec` do not work.
        """
        super().__init__(scope, construct_id)
        self._spec = spec
        self._name = name
        self._plan = address_plan(spec)
        self._cfn_vpc = ec2.CfnVPC(
            self,
            "Vpc",
            cidr_block=str(self._plan.primary),
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=[cdk.CfnTag(key="Name", value=name)],
        )
        self._private_routes = self._route_table("private")
        self.vpc_cidrs = spec.vpc_cidrs
        self.cluster_subnets = self._control_plane_subnets()
        self.system_subnets = self._system_subnets()
        gpu = self._gpu_subnet()
        self.gpu_subnet = gpu.subnet
        self.gpu_route = gpu.association
        self.public_subnets = ()
        if spec.egress == "nat":
            self.public_subnets = self._internet_access()
        self.vpc = self._vpc_interface()
        efa = EfaSecurityGroup(self, "Efa", vpc=self.vpc)
        self.efa_security_group = efa.security_group
        self.efa_rules = efa.rules
        self._s3_endpoint()
        if spec.has_interface_endpoints:
            self._interface_endpoints()
        self._logged(removal_policy)

    @property
    def connections(self) -> ec2.Connections:
        """Connections of the EFA security group, for rules of your own."""
        return self.efa_security_group.connections

    def _route_table(self, suffix: str) -> ec2.CfnRouteTable:
        return ec2.CfnRouteTable(
            self,
            f"{suffix.title().replace('-', '')}Routes",
            vpc_id=self._cfn_vpc.ref,
            tags=[cdk.CfnTag(key="Name", value=f"{self._name}-{suffix}")],
        )

    def _control_plane_subnets(self) -> tuple[ec2.ISubnet, ...]:
        # the control plane talks to the VPC only, so these subnets have no way out
        routes = self._route_table("control-plane")
        return tuple(
            ZoneSubnet(
                self,
                f"ControlPlane-{zone_id}",
                vpc=self._cfn_vpc,
                zone_id=zone_id,
                cidr=addresses.control_plane,
                routes=routes,
                name=f"{self._name}-control-plane-{zone_id}",
                tags={f"kubernetes.io/cluster/{self._name}": "shared"},
            ).subnet
            for zone_id, addresses in self._plan.zones.items()
        )

    def _system_subnets(self) -> tuple[ec2.ISubnet, ...]:
        return tuple(
            ZoneSubnet(
                self,
                f"System-{zone_id}",
                vpc=self._cfn_vpc,
                zone_id=zone_id,
                cidr=addresses.system,
                routes=self._private_routes,
                name=f"{self._name}-system-{zone_id}",
                tags={
                    f"kubernetes.io/cluster/{self._name}": "shared",
                    "kubernetes.io/role/internal-elb": "1",
                },
            ).subnet
            for zone_id, addresses in self._plan.zones.items()
        )

    def _gpu_subnet(self) -> ZoneSubnet:
        secondary = ec2.CfnVPCCidrBlock(
            self, "GpuCidr", vpc_id=self._cfn_vpc.ref, cidr_block=str(self._plan.gpu)
        )
        gpu = ZoneSubnet(
            self,
            "Gpu",
            vpc=self._cfn_vpc,
            zone_id=self._spec.gpu_zone_id,
            cidr=self._plan.gpu,
            routes=self._private_routes,
            name=f"{self._name}-gpu-{self._spec.gpu_zone_id}",
            # no load-balancer role: a load balancer would take addresses that GPU nodes need
            tags={f"kubernetes.io/cluster/{self._name}": "shared"},
        )
        gpu.resource.add_resource_dependency(secondary)
        return gpu

    def _internet_access(self) -> tuple[ec2.ISubnet, ...]:
        internet = InternetAccess(
            self,
            "Internet",
            vpc=self._cfn_vpc,
            plan=self._plan,
            gpu_zone_id=self._spec.gpu_zone_id,
            private_routes=self._private_routes,
            name=self._name,
        )
        # a node that starts before its way out exists cannot fetch anything
        self.gpu_route.add_resource_dependency(internet.private_route)
        return tuple(each.subnet for each in internet.subnets.values())

    def _vpc_interface(self) -> ec2.IVpc:
        ids = [subnet.subnet_id for subnet in self.system_subnets]
        routes = [self._private_routes.ref] * len(ids)
        public = self.public_subnets
        return ec2.Vpc.from_vpc_attributes(
            self,
            "Interface",
            vpc_id=self._cfn_vpc.ref,
            vpc_cidr_block=str(self._plan.primary),
            availability_zones=[subnet.availability_zone for subnet in self.system_subnets],
            private_subnet_ids=ids if public else None,
            private_subnet_route_table_ids=routes if public else None,
            isolated_subnet_ids=None if public else ids,
            isolated_subnet_route_table_ids=None if public else routes,
            public_subnet_ids=[subnet.subnet_id for subnet in public] or None,
            public_subnet_route_table_ids=[subnet.route_table.route_table_id for subnet in public] or None,
        )

    def _s3_endpoint(self) -> None:
        # lifecycle scripts, weights and image layers come from S3, past the NAT gateway
        ec2.CfnVPCEndpoint(
            self,
            "S3",
            vpc_id=self._cfn_vpc.ref,
            vpc_endpoint_type="Gateway",
            service_name=f"com.amazonaws.{cdk.Stack.of(self).region}.s3",
            route_table_ids=[self._private_routes.ref],
        )

    def _interface_endpoints(self) -> None:
        region = region_of_zone(self._spec.gpu_zone_id)
        assert region is not None, "the address plan refuses zones of unknown regions"
        endpoints_for(self, spec=self._spec, network=self, region=region.name)

    def _logged(self, removal_policy: cdk.RemovalPolicy) -> None:
        key = logs_key(self, "LogsKey", removal_policy=removal_policy)

        def group(construct_id: str) -> logs.LogGroup:
            return log_group(
                self,
                construct_id,
                key=key,
                retention_days=self._spec.flow_log_retention_days,
                removal_policy=removal_policy,
            )

        ec2.FlowLog(
            self,
            "FlowLog",
            resource_type=ec2.FlowLogResourceType.from_vpc(self.vpc),
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(group("FlowLogGroup")),
        )
        ClosedDefaultSecurityGroup(
            self, "DefaultSecurityGroup", vpc=self._cfn_vpc, log_group=group("DefaultSecurityGroupLogs")
        )
