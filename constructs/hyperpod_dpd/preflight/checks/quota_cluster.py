"""PRE-QUO-002: the account may run that many HyperPod instances, with such volumes."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.quotas import (
    INSTANCES_OF_ALL_CLUSTERS,
    INSTANCES_PER_CLUSTER,
    SPOT_INSTANCES_OF_ALL_CLUSTERS,
    VOLUME_GIB,
)
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.clusters import CLUSTER_CALLS, usage
from hyperpod_dpd.preflight.quota import QUOTA_CALLS, limit, shortage
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    groups = deployment.hyperpod.instance_groups
    count = sum(group.count for group in groups)
    spot = sum(group.count for group in groups if group.capacity.type == "spot")
    used = usage(deployment, account)
    path = "hyperpod.instance_groups"
    given = f"{len(groups)} instance groups with {count} instances"
    problems = [
        shortage(account, INSTANCES_PER_CLUSTER, path=path, given=given, needed=count),
        shortage(
            account,
            INSTANCES_OF_ALL_CLUSTERS,
            path=path,
            given=given,
            needed=count,
            used=used.on_demand.total() + used.spot.total(),
            used_by=" by other clusters",
        ),
    ]
    if spot:
        problems.append(
            shortage(
                account,
                SPOT_INSTANCES_OF_ALL_CLUSTERS,
                path=path,
                given=f"{spot} Spot instances",
                needed=spot,
                used=used.spot.total(),
                used_by=" by other clusters",
            )
        )
    yield from filter(None, problems)
    yield from _volumes(deployment, limit(account, VOLUME_GIB))


def _volumes(deployment: Deployment, allowed_gib: float) -> Iterator[Problem]:
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if group.volume_gib > allowed_gib:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].volume_gib",
                says=f"the account's quota {VOLUME_GIB} is too small",
                given=f"`volume_gib: {group.volume_gib}`",
                limit=f"{allowed_gib:,.0f} GiB",
                fix=f"make the volume smaller, or ask for `--service-code sagemaker --quota-code {VOLUME_GIB.code} "
                f"--desired-value {group.volume_gib}`",
            )


CHECK = Check(
    id="PRE-QUO-002",
    title="quotas allow the size of the HyperPod cluster",
    calls=(*QUOTA_CALLS, *CLUSTER_CALLS),
    look=_look,
    applies=creates_cluster,
)
