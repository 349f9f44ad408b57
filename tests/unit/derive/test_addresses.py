"""The address plan: no overlap, no surprise when zones change, every bad input named."""

from dataclasses import replace
from ipaddress import IPv4Network
from itertools import combinations
from typing import Any

import pytest

from hyperpod_dpd.derive.addresses import SERVICE_CIDR, AddressPlan, address_plan
from hyperpod_dpd.derive.obstacle import UnresolvedError
from hyperpod_dpd.spec import Network

NETWORK = Network(gpu_zone_id="use1-az6", cluster_zone_ids=("use1-az6", "use1-az4"))
EVERY_ZONE = ("use1-az1", "use1-az2", "use1-az4", "use1-az5", "use1-az6")


def every_subnet(plan: AddressPlan) -> list[IPv4Network]:
    zones = plan.zones.values()
    return [plan.gpu, *(cidr for zone in zones for cidr in (zone.public, zone.system, zone.control_plane))]


@pytest.mark.parametrize("cidr", ["10.192.0.0/16", "10.192.0.0/17", "10.192.16.0/20"])
def test_subnets_do_not_overlap_and_lie_in_the_vpc(cidr: str) -> None:
    plan = address_plan(replace(NETWORK, cidr=cidr, cluster_zone_ids=EVERY_ZONE))
    subnets = every_subnet(plan)
    assert len(subnets) == 1 + 3 * len(EVERY_ZONE)
    assert not any(one.overlaps(other) for one, other in combinations(subnets, 2))
    assert all(cidr.subnet_of(plan.primary) for cidr in subnets[1:])
    # a VPC refuses a subnet smaller than /28, and EKS recommends 16 addresses for its interfaces
    assert max(subnet.prefixlen for subnet in subnets) <= 28


def test_the_default_plan_has_the_sizes_that_the_documentation_promises() -> None:
    plan = address_plan(NETWORK)
    assert str(plan.gpu) == "10.1.0.0/16"
    zone = plan.zones["use1-az6"]
    assert [cidr.prefixlen for cidr in (zone.public, zone.system, zone.control_plane)] == [24, 20, 24]
    assert NETWORK.vpc_cidrs == ("10.192.0.0/16", "10.1.0.0/16")


def test_the_number_in_a_zones_id_picks_its_subnets() -> None:
    """An address that moves would replace subnets of a cluster that runs."""
    zones = address_plan(replace(NETWORK, cluster_zone_ids=EVERY_ZONE)).zones
    assert {
        name: [str(cidr) for cidr in (zones[name].public, zones[name].system, zones[name].control_plane)]
        for name in ("use1-az1", "use1-az6")
    } == {
        "use1-az1": ["10.192.0.0/24", "10.192.16.0/20", "10.192.8.0/24"],
        "use1-az6": ["10.192.5.0/24", "10.192.96.0/20", "10.192.13.0/24"],
    }


def test_adding_or_reordering_zones_moves_no_subnet() -> None:
    before = address_plan(NETWORK).zones
    after = address_plan(replace(NETWORK, cluster_zone_ids=EVERY_ZONE)).zones
    assert {zone: after[zone] for zone in before} == before


@pytest.mark.parametrize(
    ("change", "path", "says"),
    [
        ({"cidr": "10.192.0.0"}, "network.cidr", "size that does not work"),
        ({"cidr": "10.192.0.1/16"}, "network.cidr", "not an IPv4 CIDR"),
        ({"cidr": "fd00::/16"}, "network.cidr", "not an IPv4 CIDR"),
        ({"cidr": "10.0.0.0/8"}, "network.cidr", "size that does not work"),
        ({"cidr": "10.192.0.0/21"}, "network.cidr", "size that does not work"),
        ({"gpu_cidr": "10.1.0.0/29"}, "network.gpu_cidr", "size that does not work"),
        ({"gpu_cidr": "10.192.128.0/17"}, "network.gpu_cidr", "overlaps the VPC's primary CIDR"),
        ({"gpu_cidr": "172.20.0.0/16"}, "network.gpu_cidr", "overlaps the addresses of Kubernetes Services"),
        ({"gpu_zone_id": "us-east-1a"}, "network.gpu_zone_id", "no region of the catalog has this zone"),
        (
            {"cluster_zone_ids": ("use1-az6", "use1-az3")},
            "network.cluster_zone_ids[1]",
            "EKS accepts no cluster subnet in this zone",
        ),
        (
            {"cluster_zone_ids": ("usw2-az1", "use1-az6")},
            "network.cluster_zone_ids[0]",
            "in another region than the GPU zone",
        ),
        ({"cluster_zone_ids": ("use1-az6", "use1-az6")}, "network.cluster_zone_ids[1]", "given twice"),
    ],
)
def test_what_cannot_be_placed_is_named(change: dict[str, Any], path: str, says: str) -> None:
    with pytest.raises(UnresolvedError) as refused:
        address_plan(replace(NETWORK, **change))
    (obstacle,) = refused.value.obstacles
    assert obstacle.path == path
    assert says in obstacle.says


def test_every_obstacle_is_reported_at_once() -> None:
    with pytest.raises(UnresolvedError) as refused:
        address_plan(replace(NETWORK, cidr="x", gpu_cidr="y", cluster_zone_ids=("use1-az3", "a")))
    assert len(refused.value.obstacles) == 4


def test_services_have_addresses_that_no_default_range_touches() -> None:
    assert not any(IPv4Network(cidr).overlaps(SERVICE_CIDR) for cidr in NETWORK.vpc_cidrs)
