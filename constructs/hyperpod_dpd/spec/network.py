"""The network of a deployment: addresses, zones, ways out."""

from typing import Annotated, Literal

import annotated_types as at

from hyperpod_dpd.spec.forms import SubnetId, VpcId
from hyperpod_dpd.spec.value import NonEmptyStr, PositiveInt, value

SubnetIds = Annotated[tuple[SubnetId, ...], at.MinLen(2)]


@value
class ExistingVpc:
    """A VPC that somebody else owns, such as a central network team, with its subnets.

    Only security groups are made in it, and interface endpoints where `network.interface_endpoints` asks for them. Lists of
    subnets have one for each zone of `network.cluster_zone_ids`, in that order. One subnet may have several tasks.
    """

    vpc_id: VpcId
    """Id of the VPC. It belongs to the deployment's account: permissions name its subnets there."""

    cidrs: Annotated[tuple[NonEmptyStr, ...], at.MinLen(1)]
    """Every IPv4 CIDR of the VPC: endpoints and network policies let these addresses in, and no others."""

    gpu_subnet_id: SubnetId
    """Private subnet in `network.gpu_zone_id`, with free addresses for every GPU node (81 for one `ml.p5.48xlarge`)."""

    system_subnet_ids: SubnetIds
    """Private subnets of the system nodes, builds and functions."""

    cluster_subnet_ids: SubnetIds | None = None
    """Subnets of the EKS control plane's interfaces; by default those of the system nodes."""

    load_balancer_subnet_ids: SubnetIds | None = None
    """Subnets of the load balancer: public ones if it faces the internet. By default those of the system nodes."""

    endpoint_services: tuple[NonEmptyStr, ...] = ()
    """Services, such as `ecr.api`, of which the VPC has an interface endpoint already: none is made for them."""

    @property
    def control_plane_subnet_ids(self) -> tuple[str, ...]:
        """Subnets of the control plane's interfaces."""
        return self.cluster_subnet_ids or self.system_subnet_ids

    @property
    def balancer_subnet_ids(self) -> tuple[str, ...]:
        """Subnets of the load balancer."""
        return self.load_balancer_subnet_ids or self.system_subnet_ids


@value
class Network:
    """VPC, subnets and routes.

    Zones are named by **id** (`use1-az6`), never by name: a zone name points to another building in
    every account, and EFA traffic does not leave its zone.
    """

    gpu_zone_id: NonEmptyStr
    """Availability-zone id in which every GPU group runs; EFA does not cross zones."""

    cluster_zone_ids: Annotated[tuple[NonEmptyStr, ...], at.MinLen(2)]
    """Availability-zone ids of the EKS control plane and the system nodes.

    EKS needs two, refuses some, and takes no other zones once the cluster exists.
    """

    cidr: NonEmptyStr = "10.192.0.0/16"
    """Primary CIDR of the VPC: public, system and control-plane subnets."""

    gpu_cidr: NonEmptyStr = "10.1.0.0/16"
    """Secondary CIDR that one private subnet for the GPU groups takes whole; it cannot be changed later."""

    egress: Literal["nat", "closed"] = "nat"
    """`nat`: one NAT gateway. `closed`: no way to the internet, interface endpoints instead.

    It says what the subnets of an existing VPC have, where no way out is made: `nat` is a default route of any kind.
    """

    interface_endpoints: bool | None = None
    """Interface endpoints for the AWS APIs that nodes call; by default in a closed network with a VPC of its own."""

    flow_log_retention_days: PositiveInt = 90
    """Days that VPC flow logs are kept in CloudWatch Logs."""

    existing: ExistingVpc | None = None
    """Use this VPC instead of creating one. `cidr`, `gpu_cidr` and `flow_log_retention_days` then do not apply."""

    @property
    def has_interface_endpoints(self) -> bool:
        """Whether interface endpoints are created."""
        if self.interface_endpoints is not None:
            return self.interface_endpoints
        return self.egress == "closed" and self.existing is None

    @property
    def gpu_zone_is_apart(self) -> bool:
        """Whether no system subnet is in the GPU zone, so that its nodes need interface endpoints of their own there."""
        return self.gpu_zone_id not in self.cluster_zone_ids

    @property
    def vpc_cidrs(self) -> tuple[str, ...]:
        """Every CIDR of the VPC, secondary ones too: a rule that forgets one shuts nodes out."""
        return self.existing.cidrs if self.existing else (self.cidr, self.gpu_cidr)
