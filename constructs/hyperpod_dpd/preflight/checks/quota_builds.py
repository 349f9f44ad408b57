"""PRE-QUO-006: the account may run the builds; a fresh account may run none of a size."""

from collections import defaultdict
from collections.abc import Iterator

from hyperpod_dpd.catalog.quotas import concurrent_builds
from hyperpod_dpd.derive.builds import BuildMachine, builds
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.quota import QUOTA_CALLS, shortage
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    by_machine = defaultdict[BuildMachine, list[str]](list)
    for what, machine in builds(deployment).items():
        by_machine[machine].append(what)
    for machine, these in by_machine.items():
        problem = shortage(
            account,
            concurrent_builds(machine),
            path="platform.images",
            given=f"{', '.join(these)} on `{machine}`",
            # where one may run at a time, the next waits in the queue, and the stack for it
            needed=1,
        )
        if problem is not None:
            yield problem


def _builds_something(deployment: Deployment) -> bool:
    return bool(builds(deployment))


CHECK = Check(
    id="PRE-QUO-006",
    title="quotas allow the builds of images, chart and weights",
    calls=QUOTA_CALLS,
    look=_look,
    applies=_builds_something,
)
