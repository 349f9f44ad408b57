"""DPD-NET-010: the cluster's zones are different ones."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-010",
    severity=Severity.ERROR,
    title="`cluster_zone_ids` names different zones",
    sources=("EKS user guide, network requirements (subnets in at least two zones)",),
)
def cluster_zones_differ(deployment: Deployment) -> Iterator[Problem]:
    """EKS wants subnets in two zones; the same zone twice is one."""
    zones = deployment.network.cluster_zone_ids
    for index, zone_id in enumerate(zones):
        if zone_id in zones[:index]:
            yield Problem(
                path=f"network.cluster_zone_ids[{index}]",
                says=f"the zone `{zone_id}` is named twice",
                given=f"`cluster_zone_ids: [{', '.join(zones)}]`",
                fix="name two different zones",
            )
