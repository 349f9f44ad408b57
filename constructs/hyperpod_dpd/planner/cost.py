"""What the instance groups cost: dated list prices, or those that the deployment gives."""

from dataclasses import dataclass
from datetime import date

from hyperpod_dpd.catalog.instances import CatalogPrice, instance_type
from hyperpod_dpd.catalog.row import UnknownCatalogEntryError
from hyperpod_dpd.planner.unplannable import UnplannableError
from hyperpod_dpd.spec import Deployment, InstanceGroup, Price
from hyperpod_dpd.spec.arguments import checked

HOURS_PER_MONTH = 730


class UndatedPriceError(UnplannableError):
    """A price of the deployment has no date that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HourlyPrice:
    """US dollars of one instance and hour, with what is known about the figure."""

    usd: float
    as_of: str
    """Date, ISO 8601."""

    kind: str
    """`list`, `list, derived` (scaled from EC2's price), either `of` a region if of another one, or `given`."""

    source: str

    def __str__(self) -> str:
        return f"${self.usd:,.2f}/h ({self.kind}, {self.as_of})"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCost:
    """Cost of one instance group."""

    group: str
    instance_type: str
    count: int
    price: HourlyPrice | None
    """None: no price is known, and the total does not contain this group."""

    capacity: str
    """How the nodes are obtained. The list price is the on-demand one."""

    @property
    def usd_per_hour(self) -> float | None:
        """US dollars per hour of the whole group."""
        return None if self.price is None else self.price.usd * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class HourlyBurn:
    """What the instance groups of a deployment cost while they are allocated, busy or not."""

    groups: tuple[GroupCost, ...]

    @property
    def usd_per_hour(self) -> float:
        """US dollars per hour of every group with a price."""
        return sum(group.usd_per_hour or 0.0 for group in self.groups)

    @property
    def usd_per_month(self) -> float:
        """US dollars per month of 730 hours."""
        return self.usd_per_hour * HOURS_PER_MONTH

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Instance types without a price, which the totals leave out."""
        return tuple(dict.fromkeys(group.instance_type for group in self.groups if group.price is None))

    def __str__(self) -> str:
        parts = [
            f"{group.count} × `{group.instance_type}` at {group.price}"
            if group.price
            else f"`{group.group}` unpriced"
            for group in self.groups
        ]
        text = f"${self.usd_per_hour:,.2f}/h, ${self.usd_per_month:,.0f}/month on demand: {', '.join(parts)}"
        if self.unpriced:
            listed = ", ".join(f"`{name}`" for name in self.unpriced)
            text += f"; not counted: {listed}. help: add a dated row to `prices`"
        return text


def hourly_price(
    name: str, prices: tuple[Price, ...] = (), *, region: str | None = None
) -> HourlyPrice | None:
    """Return the price of the instance type `name`, or None when neither `prices` nor the catalog has one.

    A list price that does not hold in `region` says of which region it is.

    Raises:
        UndatedPriceError: the row in `prices` has no ISO date.
    """
    for row in prices:
        if row.instance_type == name:
            return HourlyPrice(usd=row.usd_per_hour, as_of=_dated(row), kind="given", source=row.source)
    try:
        listed = instance_type(name).price
    except UnknownCatalogEntryError:
        return None
    if listed is None:
        return None
    return HourlyPrice(
        usd=listed.usd_per_hour,
        as_of=listed.source.as_of,
        kind=_kind(listed, region),
        source=listed.source.text,
    )


@checked
def hourly_burn(deployment: Deployment) -> HourlyBurn:
    """Return what the GPU instance groups of `deployment` cost per hour.

    System nodes, NAT gateways and storage are not counted; next to a GPU node they are noise.

    Raises:
        UndatedPriceError: a price in the deployment has no ISO date.
    """
    return HourlyBurn(
        groups=tuple(_group_cost(group, deployment) for group in deployment.hyperpod.instance_groups)
    )


def usd_per_million_tokens(usd_per_hour: float, tokens_per_second: float) -> float:
    """Return US dollars per million tokens at a steady rate.

    Raises:
        ValueError: the rate is not positive, so that no token is ever paid off.
    """
    if tokens_per_second <= 0:
        raise ValueError(f"a cost per token needs a positive rate, given {tokens_per_second:g} tokens/s")
    return usd_per_hour / (tokens_per_second * 3600) * 1e6


def _kind(listed: CatalogPrice, region: str | None) -> str:
    elsewhere = "" if region is None or region in listed.regions else f" of {listed.regions[0]}"
    return f"list{elsewhere}{', derived' if listed.derived else ''}"


def _group_cost(group: InstanceGroup, deployment: Deployment) -> GroupCost:
    return GroupCost(
        group=group.name,
        instance_type=group.instance_type,
        count=group.count,
        price=hourly_price(group.instance_type, deployment.prices, region=deployment.region),
        capacity=group.capacity.type,
    )


def _dated(price: Price) -> str:
    try:
        date.fromisoformat(price.as_of)
    except ValueError:
        raise UndatedPriceError(
            f"the price of `{price.instance_type}` has no date: given `as_of: {price.as_of}`. "
            "help: write the day on which it was read as `YYYY-MM-DD`"
        ) from None
    return price.as_of
