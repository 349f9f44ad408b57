"""DPD-NET-004: CIDRs are IPv4 networks of a size that a VPC takes."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.network.cidrs import ipv4_network, overlaps
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-004",
    severity=Severity.ERROR,
    title="`cidr` and `gpu_cidr` are private IPv4 networks between /16 and /28",
    sources=("Amazon VPC user guide, vpc-cidr-blocks",),
)
def cidrs_are_networks(deployment: Deployment) -> Iterator[Problem]:
    """EC2 refuses anything else, after the first resources exist; public addresses would be hidden from the nodes."""
    for key, text in (("cidr", deployment.network.cidr), ("gpu_cidr", deployment.network.gpu_cidr)):
        network, reason = ipv4_network(text)
        path, given = f"network.{key}", f"`{key}: {text}`"
        if network is None:
            yield Problem(
                path=path,
                says=f"`{key}` is not an IPv4 network",
                given=given,
                computed=reason,
                fix="write the first address and the prefix length, as in `10.1.0.0/16`",
            )
        elif not 16 <= network.prefixlen <= 28:
            yield Problem(
                path=path,
                says=f"`{key}` has a size that a VPC does not take",
                given=given,
                computed=f"{network.num_addresses:,} addresses",
                limit="/16 (65,536 addresses) to /28 (16 addresses)",
                fix="choose a prefix length from 16 to 28",
            )
        elif not (network.is_private or overlaps(network, "100.64.0.0/10")):
            yield Problem(
                path=path,
                says=f"`{key}` is not private",
                given=given,
                limit="10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10",
                fix="choose a network from a private range",
            )
