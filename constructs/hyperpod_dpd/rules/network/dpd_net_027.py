"""DPD-NET-027: what describes a VPC of one's own is not said about an existing one."""

from collections.abc import Iterator
from dataclasses import fields

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, Network

_INSTEAD = {
    "cidr": "remove it; `network.existing.cidrs` lists the ranges of the VPC",
    "gpu_cidr": "remove it; `network.existing.gpu_subnet_id` names the subnet",
    "flow_log_retention_days": "remove it; the owner of the VPC keeps its flow logs",
}
"""What to do with a key that only a VPC of one's own has."""


@deployment_rule(
    "DPD-NET-027",
    severity=Severity.ERROR,
    title="`cidr`, `gpu_cidr` and `flow_log_retention_days` are not set beside `network.existing`",
    sources=("this project: a value that would be ignored is refused",),
)
def own_and_existing_vpc_are_not_mixed(deployment: Deployment) -> Iterator[Problem]:
    """No VPC is made, so whoever set them expects something that does not happen."""
    network = deployment.network
    if network.existing is None:
        return
    for field in fields(Network):
        value = getattr(network, field.name)
        if field.name in _INSTEAD and value != field.default:
            yield Problem(
                path=f"network.{field.name}",
                says=f"`{field.name}` is for a VPC that is made",
                given=f"`{field.name}: {value}` with `existing.vpc_id: {network.existing.vpc_id}`",
                fix=_INSTEAD[field.name],
            )
