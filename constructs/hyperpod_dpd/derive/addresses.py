"""Which addresses each subnet gets."""

from collections.abc import Generator, Iterator
from ipaddress import IPv4Network

from hyperpod_dpd.catalog.regions import region_of_zone
from hyperpod_dpd.derive.obstacle import Obstacle, UnresolvedError
from hyperpod_dpd.spec import Network
from hyperpod_dpd.spec.value import record

SERVICE_CIDR = IPv4Network("172.20.0.0/16")
"""Addresses of Kubernetes Services. Fixed, because EKS otherwise picks one of two ranges by itself."""

_VPC_PREFIXES = range(16, 29)
"""Prefix lengths that a VPC accepts."""

_PRIMARY_PREFIXES = range(16, 21)
"""Prefix lengths of the primary CIDR: below /20 the public subnets would be smaller than a VPC allows."""

_BLOCKS = 16
_ZONE_SLOTS = _BLOCKS // 2


@record
class ZoneAddresses:
    """Subnets of one zone of the cluster."""

    public: IPv4Network
    """NAT gateway and internet-facing load balancers."""
    system: IPv4Network
    """System nodes, their pods, interface endpoints, internal load balancers."""
    control_plane: IPv4Network
    """Network interfaces of the EKS control plane."""


@record
class AddressPlan:
    """Every CIDR of a VPC that a deployment makes."""

    primary: IPv4Network
    gpu: IPv4Network
    """Secondary CIDR, taken whole by the GPU subnet."""
    zones: dict[str, ZoneAddresses]
    """By zone id, in the order of `network.cluster_zone_ids`."""


def address_plan(network: Network) -> AddressPlan:
    """Return the addresses of `network`.

    The primary CIDR is cut into 16 equal blocks. The first is cut into 16 again: eight public subnets and eight for
    the control plane. The next eight are system subnets. The number in the zone's id picks the block, so that adding
    or reordering zones moves no subnet.

    Raises:
        UnresolvedError: a CIDR is not one, has a size that a VPC refuses, or overlaps another; a zone is unknown, of
            another region, refused by EKS, or given twice.
    """
    obstacles = list(_obstacles(network))
    if obstacles:
        raise UnresolvedError(obstacles)
    primary = IPv4Network(network.cidr)
    small, *blocks = primary.subnets(prefixlen_diff=4)
    pieces = list(small.subnets(prefixlen_diff=4))
    zones = {}
    for zone_id in network.cluster_zone_ids:
        slot = _slot(zone_id)
        zones[zone_id] = ZoneAddresses(
            public=pieces[slot], system=blocks[slot], control_plane=pieces[_ZONE_SLOTS + slot]
        )
    return AddressPlan(primary=primary, gpu=IPv4Network(network.gpu_cidr), zones=zones)


def _obstacles(network: Network) -> Iterator[Obstacle]:
    primary = yield from _cidr("network.cidr", network.cidr, _PRIMARY_PREFIXES)
    gpu = yield from _cidr("network.gpu_cidr", network.gpu_cidr, _VPC_PREFIXES)
    if primary and gpu and primary.overlaps(gpu):
        yield Obstacle(
            path="network.gpu_cidr",
            says="the GPU subnet overlaps the VPC's primary CIDR",
            given=f"`gpu_cidr: {gpu}` and `cidr: {primary}`",
            fix="choose ranges that do not overlap",
        )
    for path, cidr in (("network.cidr", primary), ("network.gpu_cidr", gpu)):
        if cidr and cidr.overlaps(SERVICE_CIDR):
            yield Obstacle(
                path=path,
                says="the range overlaps the addresses of Kubernetes Services",
                given=f"`{cidr}`, Services have {SERVICE_CIDR}",
                fix="choose a range outside 172.20.0.0/16",
            )
    yield from _zones(network)


def _cidr(path: str, text: str, prefixes: range) -> Generator[Obstacle, None, IPv4Network | None]:
    try:
        cidr = IPv4Network(text)
    except ValueError as error:
        yield Obstacle(
            path=path,
            says="not an IPv4 CIDR",
            given=f"`{text}` ({error})",
            fix="write an address block such as `10.192.0.0/16`",
        )
        return None
    if cidr.prefixlen not in prefixes:
        yield Obstacle(
            path=path,
            says="the range has a size that does not work",
            given=f"`{text}`; /{prefixes[0]} to /{prefixes[-1]} work",
            fix=f"choose a prefix length from /{prefixes[0]} to /{prefixes[-1]}",
        )
        return None
    return cidr


def _zones(network: Network) -> Iterator[Obstacle]:
    home = region_of_zone(network.gpu_zone_id)
    if home is None:
        yield _unknown_zone("network.gpu_zone_id", network.gpu_zone_id)
    for index, zone_id in enumerate(network.cluster_zone_ids):
        path = f"network.cluster_zone_ids[{index}]"
        region = region_of_zone(zone_id)
        if region is None:
            yield _unknown_zone(path, zone_id)
        elif home and region != home:
            yield Obstacle(
                path=path,
                says="the zone is in another region than the GPU zone",
                given=f"`{zone_id}` of {region.name}, the GPU zone `{network.gpu_zone_id}` is in {home.name}",
                fix=f"name zones of {home.name}: {_listed(home.eks_zone_ids)}",
            )
        elif zone_id in region.eks_refused_zone_ids:
            yield Obstacle(
                path=path,
                says="EKS accepts no cluster subnet in this zone",
                given=f"`{zone_id}`",
                fix=f"name two of {_listed(region.eks_zone_ids)}",
            )
        if zone_id in network.cluster_zone_ids[:index]:
            yield Obstacle(
                path=path,
                says="the zone is given twice",
                given=f"`{zone_id}`",
                fix="name two different zones",
            )


def _unknown_zone(path: str, zone_id: str) -> Obstacle:
    return Obstacle(
        path=path,
        says="no region of the catalog has this zone",
        given=f"`{zone_id}`",
        fix="name the zone by its id, such as `use1-az6`; a zone name such as `us-east-1a` differs between accounts",
    )


def _listed(zone_ids: tuple[str, ...]) -> str:
    return ", ".join(f"`{zone_id}`" for zone_id in zone_ids)


def _slot(zone_id: str) -> int:
    return int(zone_id.rpartition("-az")[2]) - 1
