"""Service quotas that the instance groups take."""

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.row import UnknownCatalogEntryError
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record


@record
class QuotaNeed:
    """Instances of one type that the account must be allowed to run in HyperPod clusters."""

    instance_type: str
    quota_code: str
    """Service Quotas code of "<type> for cluster usage"."""
    instances: int

    def __str__(self) -> str:
        return f"{self.instances} × `{self.instance_type} for cluster usage` ({self.quota_code})"


def quotas_needed(deployment: Deployment) -> tuple[QuotaNeed, ...]:
    """Return the quotas that the groups take together, for instance types of the catalog.

    Spot capacity has quotas of its own and is left out, as is what a training plan has reserved already.
    """
    counts: dict[str, int] = {}
    for group in deployment.hyperpod.instance_groups:
        if group.capacity.type == "on-demand" and group.count:
            counts[group.instance_type] = counts.get(group.instance_type, 0) + group.count
    needs = []
    for name, count in counts.items():
        try:
            row = instance_type(name)
        except UnknownCatalogEntryError:
            continue
        needs.append(QuotaNeed(instance_type=name, quota_code=row.quota_code, instances=count))
    return tuple(needs)
