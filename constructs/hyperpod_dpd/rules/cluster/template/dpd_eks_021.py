"""DPD-EKS-021: add-ons are pinned in the template."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.eks import addons
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources


@template_rule(
    "DPD-EKS-021",
    severity=Severity.ERROR,
    title="add-ons carry the version that the catalog pins",
    sources=("awslabs/awsome-distributed-ai PR 1111",),
    facts=("P10",),
)
def addons_carry_a_version(template: Template) -> Iterator[Problem]:
    """Two deployments of one commit must not differ because EKS moved its default in between."""
    unpinned = {row.name for row in addons() if not row.pins}
    for logical_id, entry in resources(template, "AWS::EKS::Addon"):
        name = properties(entry).get("AddonName")
        if "AddonVersion" not in properties(entry) and name not in unpinned:
            yield Problem(
                path=at(logical_id, "Properties.AddonVersion"),
                says=f"the add-on `{name}` has no version",
                given="no `AddonVersion`",
                fix="set the version of the catalog",
            )
