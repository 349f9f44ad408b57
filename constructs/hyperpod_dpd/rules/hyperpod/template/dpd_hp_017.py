"""DPD-HP-017: the cluster waits for what it does not refer to."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import (
    Template,
    at,
    dependencies,
    items,
    properties,
    resources,
    target,
    targets,
)

_GROUP_RULES = ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress")
_UPLOADS = ("Custom::CDKBucketDeployment",)


@template_rule(
    "DPD-HP-017",
    severity=Severity.ERROR,
    title="the cluster is created after its role's policies, its scripts and its security group's rules",
    sources=(
        "public CDK app for HyperPod (Unable to retrieve subnets)",
        "awslabs/awsome-distributed-ai PR 918",
    ),
    facts=("P5", "P31"),
)
def cluster_waits(template: Template) -> Iterator[Problem]:
    """A reference to a role or group orders only the thing itself: its policies and rules come when they come."""
    for logical_id, cluster in resources(template, "AWS::SageMaker::Cluster"):
        before = dependencies(template, logical_id)
        used = set(targets(properties(cluster)))
        for needed, kind in sorted(_needed(template, used)):
            if needed not in before:
                yield Problem(
                    path=at(logical_id, "DependsOn"),
                    says=f"the cluster does not wait for {kind}",
                    given=f"no dependency on `{needed}`",
                    fix=f"make the cluster depend on `{needed}`",
                )


def _needed(template: Template, used: set[str]) -> Iterator[tuple[str, str]]:
    for logical_id, policy in resources(template, "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        if any(target(role) in used for role in items(properties(policy).get("Roles"))):
            yield logical_id, "its role's policy"
    for logical_id, rule in resources(template, *_GROUP_RULES):
        if target(properties(rule).get("GroupId")) in used:
            yield logical_id, "a rule of its security group"
    for logical_id, upload in resources(template, *_UPLOADS):
        if not used.isdisjoint(targets(properties(upload).get("DestinationBucketName"))):
            yield logical_id, "its lifecycle scripts"
