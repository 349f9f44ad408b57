"""What a cluster asks of a network, whoever made it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from hyperpod_dpd.spec.arguments import checked_fields

_CONTROL_PLANE_SUBNETS = 2


class ClusterNetwork(Protocol):
    """A network for EKS and HyperPod: `DpdNetwork` is one, `ExistingNetwork` describes your own."""

    @property
    def vpc(self) -> ec2.IVpc:
        """The VPC."""

    @property
    def vpc_cidrs(self) -> Sequence[str]:
        """Every CIDR of the VPC."""

    @property
    def cluster_subnets(self) -> Sequence[ec2.ISubnet]:
        """Subnets of the EKS control plane, in two zones or more."""

    @property
    def system_subnets(self) -> Sequence[ec2.ISubnet]:
        """Private subnets of the system nodes."""

    @property
    def gpu_subnet(self) -> ec2.ISubnet:
        """Private subnet of every GPU group."""

    @property
    def efa_security_group(self) -> ec2.ISecurityGroup:
        """Security group of GPU nodes and control plane; ingress and egress to itself are open."""

    @property
    def efa_rules(self) -> Sequence[cdk.CfnResource]:
        """Rules of that group, to depend on."""

    @property
    def gpu_route(self) -> cdk.CfnResource | None:
        """What gives the GPU subnet its routes, to depend on; None where it exists already."""


@checked_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingNetwork:
    """A network that somebody else owns."""

    vpc: ec2.IVpc
    vpc_cidrs: Sequence[str]
    """Every CIDR of the VPC."""
    cluster_subnets: Sequence[ec2.ISubnet]
    """Subnets of the EKS control plane, in two zones or more, none of which EKS refuses."""
    system_subnets: Sequence[ec2.ISubnet]
    """Private subnets of the system nodes."""
    gpu_subnet: ec2.ISubnet
    """Private subnet in the GPU zone, large enough (81 addresses for one `ml.p5.48xlarge`)."""
    efa_security_group: ec2.ISecurityGroup
    """Security group with ingress and egress to itself; `EfaSecurityGroup` makes one."""
    efa_rules: Sequence[cdk.CfnResource] = ()
    gpu_route: cdk.CfnResource | None = None

    def __post_init__(self) -> None:
        """Refuse what no cluster can live in.

        Raises:
            ValueError: fewer than two subnets for the control plane, no system subnet, or no CIDR.
        """
        if len(self.cluster_subnets) < _CONTROL_PLANE_SUBNETS:
            raise ValueError(
                f"EKS needs subnets in two zones: given {len(self.cluster_subnets)} in `cluster_subnets`; limit at least "
                f"{_CONTROL_PLANE_SUBNETS}. help: add one of another zone"
            )
        for name in ("system_subnets", "vpc_cidrs"):
            if not getattr(self, name):
                raise ValueError(f"`{name}` is empty. help: list those of the VPC")
