"""DPD-NET-022: a VPC with interface endpoints has all that nodes call."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources

_NEEDED = (
    "ec2",
    "ec2messages",
    "ecr.api",
    "ecr.dkr",
    "eks",
    "eks-auth",
    "logs",
    "monitoring",
    "ssm",
    "ssmmessages",
    "sts",
)


@template_rule(
    "DPD-NET-022",
    severity=Severity.ERROR,
    title="a VPC with interface endpoints has one for every API that nodes and installers call",
    sources=("awsome-distributed-ai TF modules/vpc_endpoints and closed-network.tfvars",),
)
def endpoints_are_complete(template: Template) -> Iterator[Problem]:
    """One missing endpoint and nodes do not join, images are not pulled, or pods get no credentials."""
    names = [
        str(properties(endpoint).get("ServiceName"))
        for _, endpoint in resources(template, "AWS::EC2::VPCEndpoint")
        if properties(endpoint).get("VpcEndpointType") == "Interface"
    ]
    missing = [service for service in _NEEDED if not any(_is_service(name, service) for name in names)]
    if names and missing:
        for logical_id, _ in resources(template, "AWS::EC2::VPC"):
            yield Problem(
                path=at(logical_id),
                says=f"VPC `{logical_id}` lacks interface endpoints",
                given=f"{len(names)} endpoints",
                limit=", ".join(f"`{service}`" for service in missing),
                fix="add them, or no interface endpoint at all beside NAT",
            )


def _is_service(name: str, service: str) -> bool:
    # a literal name, or the end of one that is joined from tokens
    return name.removesuffix("']]}").endswith((f".{service}", f".{service}'"))
