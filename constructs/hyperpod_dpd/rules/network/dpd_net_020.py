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
    title="`cidr` and `gpu_cidr` leave the addresses of Kubernetes Services alone",
    sources=("EKS user guide, creating a cluster (service IPv4 range must not overlap the VPC)",),
)
def services_have_their_own_addresses(deployment: Deployment) -> Iterator[Problem]:
    """EKS refuses a service range inside the VPC, and pods would send traffic for nodes to Services."""
    for key, text in (("cidr", deployment.network.cidr), ("gpu_cidr", deployment.network.gpu_cidr)):
        network, _ = ipv4_network(text)
        if network is not None and network.overlaps(SERVICE_CIDR):
            yield Problem(
                path=f"network.{key}",
                says=f"`{key}` overlaps the addresses of Kubernetes Services",
                given=f"`{key}: {network}`",
                limit=f"Services have {SERVICE_CIDR}",
                fix="choose another range",
            )
