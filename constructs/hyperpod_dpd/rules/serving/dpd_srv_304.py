"""DPD-SRV-304: a NIXL that knows this many devices and this share of a node."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.derive import resolve_or_none
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES
from hyperpod_dpd.spec import Deployment

MANY_DEVICES: Final = 32
MANY_DEVICES_AFTER: Final = (0, 8, 0)
SHARED_NODE_SINCE: Final = (0, 9)


@deployment_rule(
    "DPD-SRV-304",
    severity=Severity.ERROR,
    title="NIXL is newer than 0.8.0 with 32 EFA devices, and 0.9 or newer where a worker has a part of a node",
    sources=("ai-dynamo/nixl issue 1158, PR 1149, PR 1184",),
    facts=("E4",),
)
def nixl_knows_devices_and_share(deployment: Deployment) -> Iterator[Problem]:
    """Older NIXL overflows its metadata with 32 rails, and pairs GPUs with the wrong devices on a shared node."""
    facts = resolve_or_none(deployment)
    if facts is None:
        return
    version = facts.engine.nixl_version
    for role in ROLES:
        place = facts.role(role)
        overflows = place.efa_devices >= MANY_DEVICES and version <= MANY_DEVICES_AFTER
        mispaired = not place.whole_node and version < SHARED_NODE_SINCE
        if overflows or mispaired:
            yield Problem(
                path="serving.engine.nixl",
                says="this NIXL overflows its metadata with so many EFA devices"
                if overflows
                else "this NIXL pairs GPUs with the wrong EFA devices on a shared node",
                given=f"NIXL {facts.engine.nixl}",
                computed=f"a {role.value} worker has {place.gpus} GPUs and {place.efa_devices} EFA devices",
                limit="newer than 0.8.0" if overflows else "0.9",
                fix="use an engine of the catalog",
            )
