"""DPD-NET-023: the addresses that may reach the load balancer are networks."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.network.cidrs import ipv4_network
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-023",
    severity=Severity.ERROR,
    title="`inbound_cidrs` are IPv4 networks",
    sources=("AWS Load Balancer Controller, annotation `inbound-cidrs`",),
)
def inbound_cidrs_are_networks(deployment: Deployment) -> Iterator[Problem]:
    """The controller logs another text and opens nothing, so the endpoint exists and nobody reaches it."""
    balancer = deployment.routing.load_balancer
    for index, text in enumerate(balancer.inbound_cidrs if balancer else ()):
        network, reason = ipv4_network(text)
        if network is None:
            yield Problem(
                path=f"routing.load_balancer.inbound_cidrs[{index}]",
                says="not an IPv4 network",
                given=f"`{text}`",
                computed=reason,
                fix="write a network, as in `198.51.100.0/24`",
            )
