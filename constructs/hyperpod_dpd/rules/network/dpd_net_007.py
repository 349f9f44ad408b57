"""DPD-NET-007: the GPU subnet holds the addresses of every node."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.instances import instance_types
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.network.cidrs import ipv4_network
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_RESERVED_BY_AWS = 5
"""The first four addresses and the last one of every subnet (Amazon VPC user guide, subnet sizing)."""


@deployment_rule(
    "DPD-NET-007",
    severity=Severity.ERROR,
    title="`gpu_cidr` holds the addresses of all nodes",
    sources=("SageMaker DG sagemaker-hyperpod-prerequisites (81 addresses for each P5)",),
)
def gpu_subnet_is_large_enough(deployment: Deployment) -> Iterator[Problem]:
    """A P5 on EKS takes 81 addresses; a full subnet fails the launch, and its CIDR cannot be changed later."""
    network, _ = ipv4_network(deployment.network.gpu_cidr)
    # how many addresses a subnet of somebody else has left, only its account knows
    if network is None or deployment.network.existing is not None:
        return
    per_node = {row.name: row.addresses_per_node for row in instance_types()}
    groups = [group for group in deployment.hyperpod.instance_groups if group.instance_type in per_node]
    needed = sum(group.count * per_node[group.instance_type] for group in groups) + _RESERVED_BY_AWS
    if needed > network.num_addresses:
        terms = " + ".join(
            f"{group.count} × {per_node[group.instance_type]} (`{group.name}`)" for group in groups
        )
        yield Problem(
            path="network.gpu_cidr",
            says="`gpu_cidr` is too small for the groups' addresses",
            given=f"`gpu_cidr: {network}`",
            computed=f"{terms} + {_RESERVED_BY_AWS} reserved by AWS = {needed:,} addresses",
            limit=f"{network.num_addresses:,} addresses",
            fix=f"use a prefix of at most /{32 - (needed - 1).bit_length()}"
            if needed <= 65536
            else "use fewer nodes: one VPC subnet has at most 65,536 addresses",
        )
