"""DPD-EKS-028: nodes reach the API server inside the VPC."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources


@template_rule(
    "DPD-EKS-028",
    severity=Severity.ERROR,
    title="the private endpoint is on, and a public one names its addresses",
    sources=(
        "awsome-distributed-ai TF closed-network.tfvars (required for nodes in private subnets to join)",
    ),
)
def private_endpoint_is_on(template: Template) -> Iterator[Problem]:
    """Without the private endpoint nodes reach the API server through NAT, or in a closed network never."""
    for logical_id, cluster in resources(template, "AWS::EKS::Cluster"):
        network = properties(cluster).get("ResourcesVpcConfig") or {}
        path = at(logical_id, "Properties.ResourcesVpcConfig")
        if network.get("EndpointPrivateAccess") is not True:
            yield Problem(
                path=f"{path}.EndpointPrivateAccess",
                says="the private endpoint is off",
                given=f"`EndpointPrivateAccess: {network.get('EndpointPrivateAccess', 'absent')}`",
                fix="set it to true",
            )
        if network.get("EndpointPublicAccess") is not False and not network.get("PublicAccessCidrs"):
            yield Problem(
                path=f"{path}.PublicAccessCidrs",
                says="a public endpoint without a list of addresses",
                given="no `PublicAccessCidrs`",
                fix="name the addresses, or set `EndpointPublicAccess: false`",
            )
