"""PRE-QUO-001: the account may run the instance types in HyperPod clusters."""

from collections import Counter
from collections.abc import Iterator

from hyperpod_dpd.catalog.quotas import cluster_usage, spot_usage
from hyperpod_dpd.derive.quota import quotas_needed
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.clusters import CLUSTER_CALLS, usage
from hyperpod_dpd.preflight.quota import QUOTA_CALLS, shortage
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

_USED_BY = " by other clusters"


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    used = usage(deployment, account)
    for need in quotas_needed(deployment):
        problem = shortage(
            account,
            cluster_usage(need.instance_type, need.quota_code),
            path=_path(deployment, need.instance_type, "on-demand"),
            given=_given(deployment, need.instance_type, "on-demand"),
            needed=need.instances,
            used=used.on_demand[need.instance_type],
            used_by=_USED_BY,
        )
        if problem:
            yield problem
    for instance_type, count in _spot(deployment).items():
        quota = spot_usage(instance_type)
        if quota is None:
            yield Gap(
                what=f"the quota `{instance_type} for cluster spot instance usage`",
                why="no public source names its code",
                fix=f"find it by its name in the Service Quotas console; {count} needed",
            )
            continue
        problem = shortage(
            account,
            quota,
            path=_path(deployment, instance_type, "spot"),
            given=_given(deployment, instance_type, "spot"),
            needed=count,
            used=used.spot[instance_type],
            used_by=_USED_BY,
        )
        if problem:
            yield problem


def _spot(deployment: Deployment) -> Counter[str]:
    counts: Counter[str] = Counter()
    for group in deployment.hyperpod.instance_groups:
        if group.capacity.type == "spot" and group.count:
            counts[group.instance_type] += group.count
    return counts


def _path(deployment: Deployment, instance_type: str, capacity: str) -> str:
    index = next(
        index
        for index, group in enumerate(deployment.hyperpod.instance_groups)
        if (group.instance_type, group.capacity.type) == (instance_type, capacity)
    )
    return f"hyperpod.instance_groups[{index}].count"


def _given(deployment: Deployment, instance_type: str, capacity: str) -> str:
    groups = [
        f"`{group.name}` {group.count}"
        for group in deployment.hyperpod.instance_groups
        if (group.instance_type, group.capacity.type) == (instance_type, capacity)
    ]
    return f"`{instance_type}` {capacity} in {', '.join(groups)}"


CHECK = Check(
    id="PRE-QUO-001",
    title="quotas allow the instance types in HyperPod clusters",
    calls=(*QUOTA_CALLS, *CLUSTER_CALLS),
    look=_look,
    applies=creates_cluster,
)
