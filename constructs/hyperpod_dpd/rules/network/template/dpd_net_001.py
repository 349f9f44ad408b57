"""DPD-NET-001: the EFA security group lets everything through to itself, both ways."""

from collections.abc import Iterator, Mapping
from typing import Any

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources, target

_INGRESS, _EGRESS = "AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress"


@template_rule(
    "DPD-NET-001",
    severity=Severity.ERROR,
    title="the EFA security group has self-referencing ingress and egress for all protocols",
    sources=(
        "SageMaker DG sagemaker-hyperpod-prerequisites",
        "awslabs/awsome-distributed-ai PR 259",
        "aws-cdk-lib 2.275.0: allow_all_outbound drops the self rule",
    ),
    facts=("P2", "P30"),
)
def efa_group_reaches_itself(template: Template) -> Iterator[Problem]:
    """EFA traffic needs the rule on both sides; with 0.0.0.0/0 outbound instead HyperPod's EFA health check fails."""
    for group in sorted(_efa_groups(template)):
        for kind, direction in ((_INGRESS, "ingress"), (_EGRESS, "egress")):
            if group not in _self_referencing(template, kind):
                yield Problem(
                    path=at(group),
                    says=f"EFA security group `{group}` has no {direction} rule to itself",
                    given=f"no `{kind}` with `IpProtocol: -1` and the group on both ends",
                    fix=f"add a `{kind}` resource of protocol -1 from the group to itself",
                )


def _efa_groups(template: Template) -> set[str]:
    attached = {
        group
        for _, cluster in resources(template, "AWS::SageMaker::Cluster")
        for reference in (properties(cluster).get("VpcConfig") or {}).get("SecurityGroupIds", [])
        if (group := target(reference)) is not None
    }
    groups = dict(resources(template, "AWS::EC2::SecurityGroup"))
    described = {
        name for name, group in groups.items() if "efa" in _words(properties(group).get("GroupDescription"))
    }
    with_self_rule = _self_referencing(template, _INGRESS) | _self_referencing(template, _EGRESS)
    return (attached | described | with_self_rule) & groups.keys()


def _words(text: object) -> list[str]:
    return text.lower().replace("-", " ").split() if isinstance(text, str) else []


def _self_referencing(template: Template, kind: str) -> set[str]:
    peer = "SourceSecurityGroupId" if kind == _INGRESS else "DestinationSecurityGroupId"
    return {
        group
        for _, rule in resources(template, kind)
        if (group := _to_itself(properties(rule), peer)) is not None
    }


def _to_itself(rule: Mapping[str, Any], peer: str) -> str | None:
    group = target(rule.get("GroupId"))
    return group if str(rule.get("IpProtocol")) == "-1" and group == target(rule.get(peer)) else None
