"""DPD-NET-017: GPU and system nodes get no public address."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources, target


@template_rule(
    "DPD-NET-017",
    severity=Severity.ERROR,
    title="HyperPod and system nodes run in subnets without public addresses",
    sources=("SageMaker DG sagemaker-hyperpod-prerequisites (private subnets only)",),
)
def nodes_have_no_public_address(template: Template) -> Iterator[Problem]:
    """HyperPod supports private subnets only, and a node with a public address is a target."""
    public = {
        logical_id
        for logical_id, subnet in resources(template, "AWS::EC2::Subnet")
        if properties(subnet).get("MapPublicIpOnLaunch") is True
    }
    for logical_id, resource in resources(template, "AWS::SageMaker::Cluster", "AWS::EKS::Nodegroup"):
        given = properties(resource)
        subnets = given.get("Subnets") or (given.get("VpcConfig") or {}).get("Subnets") or []
        for subnet in sorted({target(entry) or "" for entry in subnets} & public):
            yield Problem(
                path=at(logical_id, "Properties"),
                says=f"`{logical_id}` runs in the public subnet `{subnet}`",
                given=f"`{subnet}` with `MapPublicIpOnLaunch: true`",
                fix="use a private subnet",
            )
