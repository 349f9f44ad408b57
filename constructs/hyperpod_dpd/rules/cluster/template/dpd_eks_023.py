"""DPD-EKS-023: pod identities are resources of their own."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources


@template_rule(
    "DPD-EKS-023",
    severity=Severity.ERROR,
    title="add-ons have no inline pod identity associations",
    sources=("awslabs/awsome-distributed-ai #1075 and PR 1076",),
    facts=("P6",),
)
def pod_identities_stand_alone(template: Template) -> Iterator[Problem]:
    """EKS refuses them inline where the add-on's metadata says that it needs no IAM permissions."""
    for logical_id, entry in resources(template, "AWS::EKS::Addon"):
        if properties(entry).get("PodIdentityAssociations"):
            yield Problem(
                path=at(logical_id, "Properties.PodIdentityAssociations"),
                says=f"the add-on `{properties(entry).get('AddonName')}` has an inline pod identity association",
                given="`PodIdentityAssociations`",
                fix="use an `AWS::EKS::PodIdentityAssociation` resource",
            )
