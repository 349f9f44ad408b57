"""DPD-EKS-005: controllers run with zero GPU nodes."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.system_nodes import is_accelerated
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, items, properties, resources


@template_rule(
    "DPD-EKS-005",
    severity=Severity.ERROR,
    title="the cluster has a node group without accelerators",
    sources=("awslabs/ml-container-creator PR 297", "terraform-aws-eks #3001"),
    facts=("P15",),
)
def controllers_have_nodes(template: Template) -> Iterator[Problem]:
    """With zero GPU nodes CoreDNS, cert-manager and the operators stay Pending, and GPU nodes wait for them."""
    plain = [
        logical_id
        for logical_id, group in resources(template, "AWS::EKS::Nodegroup")
        if not any(is_accelerated(str(name)) for name in items(properties(group).get("InstanceTypes")))
        and (properties(group).get("ScalingConfig") or {}).get("DesiredSize", 0) > 0
    ]
    for logical_id, _ in resources(template, "AWS::EKS::Cluster"):
        if not plain:
            yield Problem(
                path=at(logical_id),
                says="no nodes for controllers",
                given="no `AWS::EKS::Nodegroup` with nodes and without accelerators",
                fix="add a small amd64 node group",
            )
