"""Regions in which HyperPod runs on EKS: zones, images and services that depend on the region."""

from hyperpod_dpd.catalog.row import Source, UnknownCatalogEntryError
from hyperpod_dpd.spec.value import record


@record
class Region:
    """One AWS region."""

    name: str
    zone_ids: tuple[str, ...]
    """Availability-zone ids, the same place in every account; an old account may not see all of them."""
    eks_refused_zone_ids: tuple[str, ...]
    """Zones in which EKS places no control-plane interface, so a cluster subnet there fails creation."""
    health_agent_account: str
    """Account of the registry that holds HyperPod's health-monitoring agent for this region."""
    managed_grafana: bool
    """Whether Amazon Managed Grafana has an endpoint here."""
    source: Source

    @property
    def eks_zone_ids(self) -> tuple[str, ...]:
        """Zones that an EKS cluster may use."""
        return tuple(zone for zone in self.zone_ids if zone not in self.eks_refused_zone_ids)


_SOURCE = Source(
    text="AWS global infrastructure page of availability zones (zone ids); awsdocs/amazon-eks-user-guide "
    "network-reqs.adoc (zones that EKS refuses); aws/sagemaker-hyperpod-cli 011ca92 health-monitoring-agent chart "
    "(registry accounts); AWS General Reference, endpoints of Amazon Managed Grafana",
    as_of="2026-11-30",
)


def _region(
    name: str,
    zone_prefix: str,
    zones: tuple[int, ...],
    *,
    health_agent_account: str,
    managed_grafana: bool,
    eks_refuses: tuple[int, ...] = (),
) -> Region:
    return Region(
        name=name,
        zone_ids=tuple(f"{zone_prefix}-az{zone}" for zone in zones),
        eks_refused_zone_ids=tuple(f"{zone_prefix}-az{zone}" for zone in eks_refuses),
        health_agent_account=health_agent_account,
        managed_grafana=managed_grafana,
        source=_SOURCE,
    )


_REGIONS = {
    row.name: row
    for row in (
        _region(
            "us-east-1",
            "use1",
            (1, 2, 3, 4, 5, 6),
            health_agent_account="767398015722",
            managed_grafana=True,
            eks_refuses=(3,),
        ),
        _region(
            "us-east-2",
            "use2",
            (1, 2, 3),
            health_agent_account="851725546812",
            managed_grafana=True,
        ),
        _region(
            "us-west-1",
            "usw1",
            (1, 2, 3),
            health_agent_account="011528288828",
            managed_grafana=False,
            eks_refuses=(2,),
        ),
        _region(
            "us-west-2",
            "usw2",
            (1, 2, 3, 4),
            health_agent_account="905418368575",
            managed_grafana=True,
        ),
        _region(
            "eu-central-1",
            "euc1",
            (1, 2, 3),
            health_agent_account="211125453373",
            managed_grafana=True,
        ),
        _region(
            "eu-west-1",
            "euw1",
            (1, 2, 3),
            health_agent_account="533267293120",
            managed_grafana=True,
        ),
        _region(
            "eu-west-2",
            "euw2",
            (1, 2, 3),
            health_agent_account="011528288831",
            managed_grafana=True,
        ),
        _region(
            "eu-north-1",
            "eun1",
            (1, 2, 3),
            health_agent_account="654654141839",
            managed_grafana=False,
        ),
        # apne1-az3 was closed on 2025-02-28
        _region(
            "ap-northeast-1",
            "apne1",
            (1, 2, 4),
            health_agent_account="533267052152",
            managed_grafana=True,
        ),
        _region(
            "ap-south-1",
            "aps1",
            (1, 2, 3),
            health_agent_account="011528288864",
            managed_grafana=False,
        ),
        _region(
            "ap-southeast-1",
            "apse1",
            (1, 2, 3),
            health_agent_account="905418428165",
            managed_grafana=True,
        ),
        _region(
            "ap-southeast-2",
            "apse2",
            (1, 2, 3),
            health_agent_account="851725636348",
            managed_grafana=True,
        ),
        _region(
            "sa-east-1",
            "sae1",
            (1, 2, 3),
            health_agent_account="025066253954",
            managed_grafana=False,
        ),
    )
}


def regions() -> tuple[Region, ...]:
    """Return every region in which HyperPod's health-monitoring agent is published."""
    return tuple(_REGIONS.values())


def region(name: str) -> Region:
    """Return the region called `name`.

    Raises:
        UnknownCatalogEntryError: the catalog has no such region.
    """
    try:
        return _REGIONS[name]
    except KeyError:
        raise UnknownCatalogEntryError("region", name, tuple(_REGIONS)) from None


def region_of_zone(zone_id: str) -> Region | None:
    """Return the region to which `zone_id` belongs, or None when no region of the catalog has it."""
    return next((row for row in _REGIONS.values() if zone_id in row.zone_ids), None)
