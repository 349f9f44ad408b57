"""DPD-NET-020: the VPC does not use the addresses of Kubernetes Services."""

from collections.abc import Iterator

from hyperpod_dpd.derive.addresses import SERVICE_CIDR
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.network.cidrs import ipv4_network
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-020",
    severity=Severity.ERROR,
    title="the CIDRs of the VPC leave the addresses of Kubernetes Services alone",
    sources=("EKS user guide, creating a cluster (service IPv4 range must not overlap the VPC)",),
)
def services_have_their_own_addresses(deployment: Deployment) -> Iterator[Problem]:
    """EKS refuses a service range inside the VPC, and pods would send traffic for nodes to Services."""
    network = deployment.network
    if network.existing is None:
        yield from _overlap("cidr", "cidr", network.cidr, "choose another range")
        yield from _overlap("gpu_cidr", "gpu_cidr", network.gpu_cidr, "choose another range")
        return
    for index, text in enumerate(network.existing.cidrs):
        yield from _overlap(f"existing.cidrs[{index}]", "cidrs", text, "use another VPC")


def _overlap(key: str, name: str, text: str, fix: str) -> Iterator[Problem]:
    network, _ = ipv4_network(text)
    if network is not None and network.overlaps(SERVICE_CIDR):
        yield Problem(
            path=f"network.{key}",
            says=f"`{name}` overlaps the addresses of Kubernetes Services",
            given=f"`{name}: {network}`",
            limit=f"Services have {SERVICE_CIDR}",
            fix=fix,
        )
