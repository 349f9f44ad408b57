"""DPD-DATA-003: stateful resources outlive their stack."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources

_STATEFUL = (
    "AWS::APS::Workspace",
    "AWS::ECR::Repository",
    "AWS::EFS::FileSystem",
    "AWS::FSx::FileSystem",
    "AWS::Grafana::Workspace",
    "AWS::KMS::Key",
    "AWS::S3::Bucket",
    "AWS::SageMaker::Cluster",
)
_KEPT = ("Retain", "RetainExceptOnCreate")


@template_rule(
    "DPD-DATA-003",
    severity=Severity.ERROR,
    title="stateful resources are retained on deletion and on replacement",
    sources=("CloudFormation user guide, DeletionPolicy and UpdateReplacePolicy",),
)
def stateful_resources_are_retained(template: Template) -> Iterator[Problem]:
    """Weights can be copied again; capacity, keys and metrics that went with a stack do not come back."""
    for logical_id, resource in resources(template, *_STATEFUL):
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            given = resource.get(policy)
            if given not in _KEPT:
                yield Problem(
                    path=at(logical_id, policy),
                    says=f"`{logical_id}` ({resource['Type']}) goes with its stack",
                    given=f"`{policy}: {given}`" if given else f"no `{policy}`",
                    limit=" or ".join(f"`{kept}`" for kept in _KEPT),
                    fix="retain it, or do both acts of `removal` in the deployment",
                )
        if properties(resource).get("ForceDelete") or properties(resource).get("EmptyOnDelete"):
            yield Problem(
                path=at(logical_id, "Properties"),
                says=f"`{logical_id}` ({resource['Type']}) is emptied when it is deleted",
                given="`EmptyOnDelete: true`",
                fix="remove the property",
            )
