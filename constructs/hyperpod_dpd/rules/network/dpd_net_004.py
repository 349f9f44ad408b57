"""DPD-NET-004: CIDRs are IPv4 networks of a size that a VPC takes."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.network.cidrs import PRIVATE_RANGES, ipv4_network, is_private
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_LONGEST_PRIMARY = 20
"""Below /20 a sixteenth of a sixteenth, one public subnet, is smaller than the /28 that a VPC takes."""


@deployment_rule(
    "DPD-NET-004",
    severity=Severity.ERROR,
    title="`cidr` and `gpu_cidr` are private IPv4 networks of a size that works",
    sources=("Amazon VPC user guide, vpc-cidr-blocks",),
)
def cidrs_are_networks(deployment: Deployment) -> Iterator[Problem]:
    """EC2 refuses anything else, after the first resources exist; public addresses would be hidden from the nodes."""
    for key, text, longest in (
        ("cidr", deployment.network.cidr, _LONGEST_PRIMARY),
        ("gpu_cidr", deployment.network.gpu_cidr, 28),
    ):
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
        elif not 16 <= network.prefixlen <= longest:
            yield Problem(
                path=path,
                says=f"`{key}` has a size that does not work",
                given=given,
                computed=f"{network.num_addresses:,} addresses",
                limit=f"/16 (65,536 addresses) to /{longest} ({2 ** (32 - longest):,} addresses)"
                + (", which is cut into 256 subnets of /28 at least" if longest == _LONGEST_PRIMARY else ""),
                fix=f"choose a prefix length from 16 to {longest}",
            )
        elif not is_private(network):
            yield Problem(
                path=path,
                says=f"`{key}` is not private",
                given=given,
                limit=", ".join(PRIVATE_RANGES),
                fix="choose a network from a private range",
            )
