"""DPD-HP-004: lifecycle scripts lie in a bucket that HyperPod may read and nobody else changes."""

from collections.abc import Iterator, Mapping

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources, targets


@template_rule(
    "DPD-HP-004",
    severity=Severity.ERROR,
    title="the lifecycle bucket's name starts with `sagemaker-`",
    sources=("SageMaker API ClusterLifeCycleConfig (path starts with s3://sagemaker-)",),
)
def lifecycle_bucket_is_readable(template: Template) -> Iterator[Problem]:
    """SageMaker's managed policy reads buckets of this prefix only; with another name no node runs its script."""
    buckets = dict(resources(template, "AWS::S3::Bucket"))
    for _, cluster in resources(template, "AWS::SageMaker::Cluster"):
        groups = properties(cluster).get("InstanceGroups", [])
        used = {name for group in groups for name in targets(group.get("LifeCycleConfig"))}
        for name in sorted(used & buckets.keys()):
            if not _start(properties(buckets[name]).get("BucketName")).startswith("sagemaker-"):
                yield Problem(
                    path=at(name, "Properties.BucketName"),
                    says="the lifecycle bucket has a name that HyperPod's policy does not cover",
                    given=f"`{properties(buckets[name]).get('BucketName', 'no name')}`",
                    limit="a name that starts with `sagemaker-`",
                    fix="give the bucket an explicit name with this prefix",
                )


def _start(name: object) -> str:
    """Return the literal beginning of a name that may be joined from tokens."""
    if isinstance(name, Mapping):
        name = name["Fn::Join"][1] if "Fn::Join" in name else name.get("Fn::Sub")
    if isinstance(name, list):
        name = name[0]
    return name if isinstance(name, str) else ""
