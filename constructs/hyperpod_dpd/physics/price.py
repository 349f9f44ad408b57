"""What the instance groups cost by list price."""

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.spec import Deployment, InstanceGroup
from hyperpod_dpd.spec.value import record


@record
class GroupPrice:
    """Hourly list price of one instance group."""

    group: str
    instance_type: str
    count: int
    usd_per_instance_hour: float | None
    """US dollars per instance and hour; None where no price is known."""
    note: str
    """Where the price comes from, and whether it was published or scaled."""

    @property
    def usd_per_hour(self) -> float | None:
        """US dollars an hour for all nodes of the group; None where no price is known."""
        return None if self.usd_per_instance_hour is None else self.count * self.usd_per_instance_hour


@record
class ListPrice:
    """Hourly list price of all instance groups of a deployment."""

    groups: tuple[GroupPrice, ...]

    @property
    def usd_per_hour(self) -> float | None:
        """US dollars an hour; None as soon as one group has nodes without a known price."""
        prices = [group.usd_per_hour for group in self.groups if group.count]
        return None if None in prices else sum(price for price in prices if price is not None)


def list_price(deployment: Deployment) -> ListPrice:
    """Return what the nodes of every group cost by list, at their full count.

    A price in the deployment replaces the catalog's. Spot and training plans are shown at list price, too: what they
    really cost is known to AWS only.

    Raises:
        UnknownCatalogEntryError: an instance type that neither the deployment prices nor the catalog knows.
    """
    given = {price.instance_type: price for price in deployment.prices}

    def price_of(group: InstanceGroup) -> GroupPrice:
        price = given.get(group.instance_type)
        if price is not None:
            return _priced(group, price.usd_per_hour, f"{price.source}, {price.as_of}")
        row = instance_type(group.instance_type).price
        if row is None:
            return _priced(group, None, "no published price; give one under `prices`")
        how = "estimated" if row.derived else "published"
        return _priced(group, row.usd_per_hour, f"{how}: {row.source.text}, {row.source.as_of}")

    return ListPrice(groups=tuple(price_of(group) for group in deployment.hyperpod.instance_groups))


def _priced(group: InstanceGroup, usd_per_hour: float | None, note: str) -> GroupPrice:
    return GroupPrice(
        group=group.name,
        instance_type=group.instance_type,
        count=group.count,
        usd_per_instance_hour=usd_per_hour,
        note=note,
    )
