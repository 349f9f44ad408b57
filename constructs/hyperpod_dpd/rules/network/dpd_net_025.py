"""DPD-NET-025: the CIDRs of an existing VPC are networks that a VPC can have."""

from collections.abc import Iterator
from ipaddress import IPv4Network

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.network.cidrs import ipv4_network
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-025",
    severity=Severity.ERROR,
    title="the CIDRs of an existing VPC are IPv4 networks from /16 to /28 that do not overlap",
    sources=("Amazon VPC user guide, vpc-cidr-blocks",),
)
def existing_cidrs_are_networks(deployment: Deployment) -> Iterator[Problem]:
    """They are written into network policies and security groups: a wrong one shuts nodes out, or lets others in."""
    existing = deployment.network.existing
    seen: list[IPv4Network] = []
    for index, text in enumerate(existing.cidrs if existing else ()):
        path, given = f"network.existing.cidrs[{index}]", f"`{text}`"
        network, reason = ipv4_network(text)
        if network is None:
            yield Problem(
                path=path,
                says="not an IPv4 network",
                given=given,
                computed=reason,
                fix="write the first address and the prefix length, as in `10.1.0.0/16`",
            )
            continue
        if not 16 <= network.prefixlen <= 28:
            yield Problem(
                path=path,
                says="no VPC has a CIDR of this size",
                given=given,
                computed=f"{network.num_addresses:,} addresses",
                limit="/16 (65,536 addresses) to /28 (16 addresses)",
                fix="list each CIDR of the VPC, not the range from which they were taken",
            )
        for other in seen:
            if network.overlaps(other):
                yield Problem(
                    path=path,
                    says="no VPC has CIDRs that overlap",
                    given=f"{given} and `{other}`",
                    fix="list each CIDR of the VPC once",
                )
        seen.append(network)
