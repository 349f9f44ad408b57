"""DPD-NET-008: zone ids belong to the region."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.regions import region_of_zone, regions
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-008",
    severity=Severity.ERROR,
    title="every zone id belongs to the deployment's region",
    sources=(
        "AWS global infrastructure, zone ids",
        "awslabs/awsome-distributed-ai #204",
        "awslabs/ai-on-sagemaker-hyperpod #142",
    ),
    facts=("P16",),
)
def zones_belong_to_the_region(deployment: Deployment) -> Iterator[Problem]:
    """A subnet in a zone of another region, or in a zone name instead of an id, fails the first stack."""
    row = next((row for row in regions() if row.name == deployment.region), None)
    if row is None:
        return
    for path, zone_id in _zones(deployment):
        if zone_id in row.zone_ids:
            continue
        other = region_of_zone(zone_id)
        yield Problem(
            path=path,
            says=f"`{zone_id}` is not a zone id of the region",
            given=f"`{zone_id}` with `region: {deployment.region}`",
            computed=f"`{zone_id}` belongs to {other.name}" if other else "",
            limit=", ".join(row.zone_ids),
            fix="zone ids, not zone names: `aws ec2 describe-availability-zones` shows both",
        )


def _zones(deployment: Deployment) -> Iterator[tuple[str, str]]:
    yield "network.gpu_zone_id", deployment.network.gpu_zone_id
    for index, zone_id in enumerate(deployment.network.cluster_zone_ids):
        yield f"network.cluster_zone_ids[{index}]", zone_id
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if group.zone_id is not None:
            yield f"hyperpod.instance_groups[{index}].zone_id", group.zone_id
