"""DPD-NET-021: interface endpoints answer the whole VPC."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.network.cidrs import ipv4_network
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, items, properties, resources, target


@template_rule(
    "DPD-NET-021",
    severity=Severity.ERROR,
    title="security groups of interface endpoints let HTTPS in from every CIDR of the VPC",
    sources=("awsome-distributed-ai TF modules/vpc_endpoints (primary and secondary CIDRs)",),
)
def endpoints_answer_the_whole_vpc(template: Template) -> Iterator[Problem]:
    """GPU nodes live in the secondary CIDR: an endpoint that knows only the primary one times out for them."""
    vpc = [
        cidr
        for _, resource in resources(template, "AWS::EC2::VPC", "AWS::EC2::VPCCidrBlock")
        if (cidr := ipv4_network(str(properties(resource).get("CidrBlock")))[0]) is not None
    ]
    groups = {
        group
        for _, endpoint in resources(template, "AWS::EC2::VPCEndpoint")
        if properties(endpoint).get("VpcEndpointType") == "Interface"
        for reference in items(properties(endpoint).get("SecurityGroupIds"))
        if (group := target(reference)) is not None
    }
    for group in sorted(groups):
        let_in = list(_https_sources(template, group))
        for cidr in vpc:
            if not any(cidr.subnet_of(source) for source in let_in):
                yield Problem(
                    path=at(group, "Properties.SecurityGroupIngress"),
                    says=f"security group `{group}` keeps a part of the VPC from its endpoints",
                    given=", ".join(f"`{source}`" for source in let_in) or "no HTTPS from any CIDR",
                    limit=f"`{cidr}`",
                    fix=f"let TCP 443 in from `{cidr}`",
                )


def _https_sources(template: Template, group: str) -> Iterator[IPv4Network]:
    inline = items(properties(template["Resources"].get(group, {})).get("SecurityGroupIngress"))
    separate = [
        properties(rule)
        for _, rule in resources(template, "AWS::EC2::SecurityGroupIngress")
        if target(properties(rule).get("GroupId")) == group
    ]
    for rule in (*inline, *separate):
        network, _ = ipv4_network(str(rule.get("CidrIp")))
        if network is not None and _covers_https(rule):
            yield network


def _covers_https(rule: Mapping[str, Any]) -> bool:
    protocol = str(rule.get("IpProtocol"))
    return protocol == "-1" or (
        protocol in {"tcp", "6"} and rule.get("FromPort", 0) <= 443 <= rule.get("ToPort", 65535)
    )
