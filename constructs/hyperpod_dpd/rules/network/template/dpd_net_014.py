"""DPD-NET-014: subnets are placed by zone id."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources


@template_rule(
    "DPD-NET-014",
    severity=Severity.ERROR,
    title="subnets are placed by availability-zone id",
    sources=(
        "AWS::EC2::Subnet, AvailabilityZoneId",
        "aws/sagemaker-hyperpod-cluster-setup private-subnet-template.yaml",
    ),
    facts=("P1", "P16"),
)
def subnets_are_placed_by_zone_id(template: Template) -> Iterator[Problem]:
    """`us-east-1a` is another building in every account, and capacity and EFA are bound to the building."""
    for logical_id, subnet in resources(template, "AWS::EC2::Subnet"):
        given = properties(subnet)
        if "AvailabilityZoneId" not in given:
            name = given.get("AvailabilityZone")
            yield Problem(
                path=at(logical_id, "Properties"),
                says=f"subnet `{logical_id}` is not placed by zone id",
                given=f"`AvailabilityZone: {name}`" if name else "no zone at all",
                fix="set `AvailabilityZoneId` instead",
            )
