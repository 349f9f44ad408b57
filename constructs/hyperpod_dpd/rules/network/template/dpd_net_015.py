"""DPD-NET-015: a subnet in a secondary CIDR waits for the CIDR."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.network.cidrs import ipv4_network
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, dependencies, properties, resources


@template_rule(
    "DPD-NET-015",
    severity=Severity.ERROR,
    title="a subnet in a secondary CIDR depends on the CIDR",
    sources=("aws/sagemaker-hyperpod-cluster-setup private-subnet-template.yaml (DependsOn)",),
)
def subnet_waits_for_its_cidr(template: Template) -> Iterator[Problem]:
    """CloudFormation sees no order between the two and creates the subnet first on some days."""
    blocks = {
        logical_id: ipv4_network(str(properties(block).get("CidrBlock")))[0]
        for logical_id, block in resources(template, "AWS::EC2::VPCCidrBlock")
    }
    for logical_id, subnet in resources(template, "AWS::EC2::Subnet"):
        network, _ = ipv4_network(str(properties(subnet).get("CidrBlock")))
        for block_id, block in blocks.items():
            inside = network is not None and block is not None and network.subnet_of(block)
            if inside and block_id not in dependencies(template, logical_id):
                yield Problem(
                    path=at(logical_id, "DependsOn"),
                    says=f"subnet `{logical_id}` does not wait for its CIDR",
                    given=f"`CidrBlock: {network}` without `DependsOn: {block_id}`",
                    fix=f"make it depend on `{block_id}`",
                )
