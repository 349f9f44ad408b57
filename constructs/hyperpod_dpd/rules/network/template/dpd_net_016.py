"""DPD-NET-016: the VPC has flow logs."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources, target


@template_rule(
    "DPD-NET-016",
    severity=Severity.ERROR,
    title="the VPC has flow logs of all traffic",
    sources=("cdk-nag AwsSolutions-VPC7",),
)
def vpc_has_flow_logs(template: Template) -> Iterator[Problem]:
    """Prompts cross this network in clear between workers; without flow logs nobody can say who talked to whom."""
    logged = {
        target(properties(log).get("ResourceId"))
        for _, log in resources(template, "AWS::EC2::FlowLog")
        if properties(log).get("TrafficType") == "ALL"
    }
    for logical_id, _ in resources(template, "AWS::EC2::VPC"):
        if logical_id not in logged:
            yield Problem(
                path=at(logical_id),
                says=f"VPC `{logical_id}` has no flow log of all traffic",
                given="no `AWS::EC2::FlowLog` with `TrafficType: ALL`",
                fix="add a flow log to CloudWatch Logs or S3",
            )
