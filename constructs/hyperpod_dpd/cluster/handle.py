"""What the platform and the serving need of a cluster, whoever made it."""

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHandle:
    """An EKS cluster with a HyperPod cluster on it."""

    eks_name: str
    eks_arn: str
    security_group_id: str
    """Security group that EKS made for the control plane; port 443 in it is the Kubernetes API."""
    vpc: ec2.IVpc
    subnets: Sequence[ec2.ISubnet]
    """Private subnets from which the API and AWS are reached."""
    gpu_subnet_id: str | None = None
    """Subnet of the GPU nodes, for what lives beside them."""
    gpu_security_group_id: str | None = None
    """Security group of the GPU nodes, through which they also reach each other by EFA."""
    hyperpod_name: str
    hyperpod_arn: str
