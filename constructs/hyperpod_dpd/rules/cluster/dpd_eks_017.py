"""DPD-EKS-017: the public endpoint's addresses are CIDRs, and used."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.network.cidrs import ipv4_network, is_private
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_OPEN = ("0.0.0.0/0",)
_MOST = 40
"""Service quota "public endpoint access CIDR ranges per cluster" of EKS."""


@deployment_rule(
    "DPD-EKS-017",
    severity=Severity.ERROR,
    title="`public_access_cidrs` are 1 to 40 public IPv4 networks, and only where the endpoint is public",
    sources=("EKS user guide, cluster-endpoint and service quotas",),
)
def public_cidrs_make_sense(deployment: Deployment) -> Iterator[Problem]:
    """EKS refuses other texts; a private network never arrives at a public endpoint, so its owner is locked out."""
    cluster = deployment.cluster
    cidrs, path = cluster.public_access_cidrs, "cluster.public_access_cidrs"
    if cluster.endpoint_access == "private":
        if cidrs != _OPEN:
            yield Problem(
                path=path,
                says="addresses for a public endpoint that does not exist",
                given=f"`public_access_cidrs: [{', '.join(cidrs)}]` with `endpoint_access: private`",
                fix="remove `public_access_cidrs`",
            )
        return
    if not 1 <= len(cidrs) <= _MOST:
        yield Problem(
            path=path,
            says="a number of addresses that EKS does not take",
            given=f"{len(cidrs)}",
            limit=f"1 to {_MOST}",
            fix="list your networks, or set `endpoint_access: private`",
        )
    for index, text in enumerate(cidrs):
        network, reason = ipv4_network(text)
        if network is None or is_private(network):
            yield Problem(
                path=f"{path}[{index}]",
                says="not a public IPv4 network",
                given=f"`{text}`",
                computed=reason or "a private range",
                fix="write the address from which you reach the internet, as in `198.51.100.7/32`",
            )
