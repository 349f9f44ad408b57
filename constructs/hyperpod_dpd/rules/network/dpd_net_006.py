"""DPD-NET-006: the secondary CIDR comes from a range that AWS accepts beside the primary one."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.network.cidrs import ipv4_network, overlaps
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_REFUSED_BESIDE = {
    "10.0.0.0/8": ("172.16.0.0/12", "192.168.0.0/16", "198.19.0.0/16"),
    "172.16.0.0/12": ("10.0.0.0/8", "192.168.0.0/16", "172.31.0.0/16", "198.19.0.0/16"),
    "192.168.0.0/16": ("10.0.0.0/8", "172.16.0.0/12", "198.19.0.0/16"),
    "100.64.0.0/10": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.19.0.0/16"),
}


@deployment_rule(
    "DPD-NET-006",
    severity=Severity.ERROR,
    title="`gpu_cidr` comes from a range that AWS accepts beside `cidr`",
    sources=("Amazon VPC user guide, vpc-cidr-blocks, CIDR block association restrictions",),
)
def secondary_range_is_accepted(deployment: Deployment) -> Iterator[Problem]:
    """EC2 refuses to associate a secondary CIDR from another private range than the primary one."""
    primary, _ = ipv4_network(deployment.network.cidr)
    secondary, _ = ipv4_network(deployment.network.gpu_cidr)
    if primary is None or secondary is None or primary.overlaps(secondary):
        return
    for home, refused in _REFUSED_BESIDE.items():
        if not overlaps(primary, home):
            continue
        for text in refused:
            if overlaps(secondary, text):
                yield Problem(
                    path="network.gpu_cidr",
                    says="`gpu_cidr` cannot be associated with this VPC",
                    given=f"`gpu_cidr: {secondary}` beside `cidr: {primary}`",
                    limit=f"no secondary CIDR from {text} beside a primary one from {home}",
                    fix=f"choose both from {home}"
                    if home != "100.64.0.0/10"
                    else "choose both from 10.0.0.0/8",
                )
                return
