"""PRE-ZON-001: the account sees the zones, and they are open."""

from collections.abc import Iterator

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    answer = account.client("ec2").describe_availability_zones(AllAvailabilityZones=True)
    states = {
        row["ZoneId"]: row["State"]
        for row in answer["AvailabilityZones"]
        if row.get("ZoneType", "availability-zone") == "availability-zone"
        and row.get("OptInStatus", "opt-in-not-required") != "not-opted-in"
    }
    network = deployment.network
    places = [("network.gpu_zone_id", network.gpu_zone_id)]
    places += [
        (f"network.cluster_zone_ids[{index}]", zone_id)
        for index, zone_id in enumerate(network.cluster_zone_ids)
    ]
    for path, zone_id in places:
        state = states.get(zone_id)
        if state != "available":
            yield Problem(
                path=path,
                says="the account cannot use the zone",
                given=f"`{zone_id}`",
                computed=f"its state is `{state}`" if state else "the account does not see it",
                limit="the account sees " + ", ".join(f"`{zone}`" for zone in sorted(states)),
                fix="choose one of these; an old account misses the newest zones of its region",
            )


CHECK = Check(
    id="PRE-ZON-001",
    title="the account sees the zones",
    calls=(Call(service="ec2", operation="DescribeAvailabilityZones"),),
    look=_look,
)
