"""DPD-NET-009: EKS accepts the cluster's zones."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.regions import region_of_zone
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-009",
    severity=Severity.ERROR,
    title="EKS places control-plane interfaces in the cluster's zones",
    sources=("EKS user guide, network requirements (zones in which EKS creates no cluster)",),
)
def eks_accepts_the_zones(deployment: Deployment) -> Iterator[Problem]:
    """EKS answers UnsupportedAvailabilityZoneException for a few old zones, and the cluster is not created."""
    for index, zone_id in enumerate(deployment.network.cluster_zone_ids):
        row = region_of_zone(zone_id)
        if row is not None and zone_id in row.eks_refused_zone_ids:
            yield Problem(
                path=f"network.cluster_zone_ids[{index}]",
                says=f"EKS refuses the zone `{zone_id}`",
                given=f"`{zone_id}`",
                limit=", ".join(row.eks_zone_ids),
                fix="put the cluster into two of the other zones; the GPU zone may stay where it is",
            )
