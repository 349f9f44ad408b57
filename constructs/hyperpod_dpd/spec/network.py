"""The network of a deployment: addresses, zones, ways out."""

from typing import Annotated, Literal

import annotated_types as at

from hyperpod_dpd.spec.value import NonEmptyStr, PositiveInt, value


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
    """`nat`: one NAT gateway. `closed`: no way to the internet, interface endpoints instead."""

    interface_endpoints: bool | None = None
    """Interface endpoints for the AWS APIs that nodes call; by default only in a closed network."""

    flow_log_retention_days: PositiveInt = 90
    """Days that VPC flow logs are kept in CloudWatch Logs."""

    @property
    def has_interface_endpoints(self) -> bool:
        """Whether interface endpoints are created."""
        return self.egress == "closed" if self.interface_endpoints is None else self.interface_endpoints
