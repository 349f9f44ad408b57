"""What the platform and the serving need of a cluster, whoever made it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import annotated_types as at
from aws_cdk import aws_ec2 as ec2

from hyperpod_dpd.spec.arguments import checked_fields
from hyperpod_dpd.spec.value import NonEmptyStr


@checked_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHandle:
    """An EKS cluster with a HyperPod cluster on it."""

    eks_name: NonEmptyStr
    eks_arn: NonEmptyStr
    security_group_id: NonEmptyStr
    """Security group that EKS made for the control plane; port 443 in it is the Kubernetes API."""
    vpc: ec2.IVpc
    subnets: Annotated[Sequence[ec2.ISubnet], at.MinLen(1)]
    """Private subnets from which the API and AWS are reached."""
    gpu_subnet_id: str | None = None
    """Subnet of the GPU nodes, for what lives beside them."""
    gpu_security_group_id: str | None = None
    """Security group of the GPU nodes, through which they also reach each other by EFA."""
    hyperpod_name: NonEmptyStr
    hyperpod_arn: NonEmptyStr
