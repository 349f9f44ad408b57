"""DPD-EKS-035: system nodes and GPU nodes reach each other."""

from collections.abc import Iterator, Mapping
from typing import Any

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources, target


@template_rule(
    "DPD-EKS-035",
    severity=Severity.ERROR,
    title="the cluster's own security group and the GPU nodes' let everything in from each other",
    sources=("EKS user guide, cluster security group", "awslabs/awsome-distributed-ai PR 259"),
)
def both_sides_reach_each_other(template: Template) -> Iterator[Problem]:
    """Pods on system nodes sit in a group that EKS creates: without the rules GPU pods have no DNS and no webhooks."""
    rules = [
        properties(rule)
        for _, rule in resources(template, "AWS::EC2::SecurityGroupIngress")
        if str(properties(rule).get("IpProtocol")) == "-1"
    ]
    for logical_id, _ in resources(template, "AWS::EKS::Cluster"):
        into = any(_is_group_of(rule.get("GroupId"), logical_id) for rule in rules)
        out_of = any(_is_group_of(rule.get("SourceSecurityGroupId"), logical_id) for rule in rules)
        for present, direction in ((into, "into"), (out_of, "out of")):
            if not present:
                yield Problem(
                    path=at(logical_id),
                    says=f"no traffic {direction} the cluster security group",
                    given="no `AWS::EC2::SecurityGroupIngress` of protocol -1 with it",
                    fix="add ingress rules between the cluster security group and the EFA group, both ways",
                )


def _is_group_of(value: object, cluster: str) -> bool:
    attribute: Any = value.get("Fn::GetAtt") if isinstance(value, Mapping) else None
    return target(value) == cluster and "ClusterSecurityGroupId" in str(attribute)
