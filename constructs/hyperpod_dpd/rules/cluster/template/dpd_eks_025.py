"""DPD-EKS-025: one access entry for each principal, none with policies for HyperPod's nodes."""

import json
from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources


@template_rule(
    "DPD-EKS-025",
    severity=Severity.ERROR,
    title="every principal has one access entry, and HyperPod's nodes none with policies",
    sources=(
        "terraform-aws-eks #2968",
        "sunilpp/hyperpod-quickstart b96a3c0",
        "SageMaker API ClusterMetadata",
    ),
    facts=("P19", "P30"),
)
def access_entries_are_single(template: Template) -> Iterator[Problem]:
    """A second entry for a principal is a conflict (409); HyperPod creates the entries of its nodes by itself."""
    owners: dict[str, str] = {}
    for logical_id, entry in resources(template, "AWS::EKS::AccessEntry"):
        given = properties(entry)
        principal = json.dumps(given.get("PrincipalArn"), sort_keys=True)
        first = owners.setdefault(principal, logical_id)
        if first != logical_id:
            yield Problem(
                path=at(logical_id, "Properties.PrincipalArn"),
                says="a principal has two access entries",
                given=f"`{first}` and `{logical_id}`",
                fix="keep one and give it all policies",
            )
        if given.get("Type") == "HYPERPOD_LINUX" and "AccessPolicies" in given:
            yield Problem(
                path=at(logical_id, "Properties.AccessPolicies"),
                says="an access entry for HyperPod's nodes with policies",
                given="`Type: HYPERPOD_LINUX` with `AccessPolicies`",
                fix="remove the entry: HyperPod creates its own",
            )
