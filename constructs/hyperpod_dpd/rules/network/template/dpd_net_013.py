"""DPD-NET-013: the VPC has an S3 gateway endpoint."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources, target


@template_rule(
    "DPD-NET-013",
    severity=Severity.ERROR,
    title="the VPC has an S3 gateway endpoint",
    sources=(
        "SageMaker DG sagemaker-hyperpod-prerequisites",
        "aws/sagemaker-hyperpod-cluster-setup s3-endpoint-template.yaml",
    ),
)
def vpc_has_an_s3_gateway(template: Template) -> Iterator[Problem]:
    """Lifecycle scripts and weights come from S3; through NAT every gigabyte would be charged."""
    served = {
        target(properties(endpoint).get("VpcId"))
        for _, endpoint in resources(template, "AWS::EC2::VPCEndpoint")
        if properties(endpoint).get("VpcEndpointType", "Gateway") == "Gateway"
        and "s3" in str(properties(endpoint).get("ServiceName"))
    }
    for logical_id, _ in resources(template, "AWS::EC2::VPC"):
        if logical_id not in served:
            yield Problem(
                path=at(logical_id),
                says=f"VPC `{logical_id}` has no S3 gateway endpoint",
                given="no `AWS::EC2::VPCEndpoint` of type Gateway for S3",
                fix="add the gateway endpoint to every route table of private subnets",
            )
