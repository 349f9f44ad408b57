"""DPD-EKS-026: CoreDNS is created after the nodes that run it."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, dependencies, properties, resources


@template_rule(
    "DPD-EKS-026",
    severity=Severity.ERROR,
    title="CoreDNS waits for the system node group",
    sources=(
        "hashicorp/terraform-provider-aws #44669",
        "terraform-aws-eks #3001",
        "pulumi-eks #1819 and #1525",
    ),
    facts=("P18", "P31"),
)
def coredns_waits_for_nodes(template: Template) -> Iterator[Problem]:
    """Without nodes it is DEGRADED, which CloudFormation reports as success: a green stack without DNS."""
    groups = {logical_id for logical_id, _ in resources(template, "AWS::EKS::Nodegroup")}
    for logical_id, entry in resources(template, "AWS::EKS::Addon"):
        if properties(entry).get("AddonName") == "coredns" and groups.isdisjoint(
            dependencies(template, logical_id)
        ):
            yield Problem(
                path=at(logical_id, "DependsOn"),
                says="CoreDNS does not wait for nodes",
                given="no dependency on an `AWS::EKS::Nodegroup`",
                fix="make it depend on the system node group",
            )
