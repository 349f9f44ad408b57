"""DPD-EKS-022: add-ons take over what EKS installed by itself."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources

_SELF_MANAGED = ("coredns", "kube-proxy", "vpc-cni")


@template_rule(
    "DPD-EKS-022",
    severity=Severity.ERROR,
    title="add-ons that EKS brings by itself are overwritten",
    sources=("aws/containers-roadmap #1411",),
    facts=("P25",),
)
def addons_overwrite(template: Template) -> Iterator[Problem]:
    """EKS installs these three unmanaged; an add-on beside them ends in CREATE_FAILED with a conflict."""
    for logical_id, entry in resources(template, "AWS::EKS::Addon"):
        given = properties(entry)
        if given.get("AddonName") in _SELF_MANAGED and given.get("ResolveConflicts") != "OVERWRITE":
            yield Problem(
                path=at(logical_id, "Properties.ResolveConflicts"),
                says=f"the add-on `{given.get('AddonName')}` does not take over the self-managed one",
                given=f"`ResolveConflicts: {given.get('ResolveConflicts', 'NONE')}`",
                fix="set `ResolveConflicts: OVERWRITE`",
            )
