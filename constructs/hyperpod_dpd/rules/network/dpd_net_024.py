"""DPD-NET-024: an internet-facing load balancer has subnets that hold it."""

from collections.abc import Iterator

from hyperpod_dpd.derive import UnresolvedError
from hyperpod_dpd.derive.addresses import address_plan
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_LONGEST_PREFIX = 27


@deployment_rule(
    "DPD-NET-024",
    severity=Severity.ERROR,
    title="an internet-facing load balancer has public subnets, of /27 or larger",
    sources=("ELB user guide, subnets for Application Load Balancers (at least /27 and 8 free addresses)",),
)
def public_subnets_hold_the_load_balancer(deployment: Deployment) -> Iterator[Problem]:
    """The controller finds no subnet that ELB accepts, so the Ingress stays without an address while workers are paid for."""
    balancer, network = deployment.routing.load_balancer, deployment.network
    if balancer is None or balancer.scheme != "internet-facing":
        return
    existing = network.existing
    if existing is not None and existing.load_balancer_subnet_ids is None:
        yield Problem(
            path="routing.load_balancer.scheme",
            says="no public subnets of the existing VPC are named",
            given="`scheme: internet-facing` without `network.existing.load_balancer_subnet_ids`",
            fix="list them there, one for each of `network.cluster_zone_ids`, or set `scheme: internal`",
        )
        return
    if existing is not None or deployment.cluster.existing is not None:
        return
    if network.egress == "closed":
        yield Problem(
            path="routing.load_balancer.scheme",
            says="a closed network has no public subnets",
            given="`scheme: internet-facing` with `egress: closed`",
            fix="set `scheme: internal`, or `network.egress: nat`",
        )
        return
    try:
        zones = address_plan(network).zones
    except UnresolvedError:
        # the rules about addresses say why
        return
    public = next(iter(zones.values())).public
    if public.prefixlen > _LONGEST_PREFIX:
        yield Problem(
            path="network.cidr",
            says="public subnets are too small for an internet-facing load balancer",
            given=f"`cidr: {network.cidr}` with `scheme: internet-facing`",
            computed=f"public subnets of /{public.prefixlen}",
            limit=f"/{_LONGEST_PREFIX} and 8 free addresses",
            fix="choose a `cidr` of /19 or larger, or `scheme: internal`",
        )
