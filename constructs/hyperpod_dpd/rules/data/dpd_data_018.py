"""DPD-DATA-018: keys are of the region in which they encrypt."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, S3Source


def _keys(deployment: Deployment) -> Iterator[tuple[str, str | None]]:
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        yield f"hyperpod.instance_groups[{index}].volumes_kms_key_arn", group.volumes_kms_key_arn
    # a folder to import from may be in another region
    if isinstance(deployment.model.source, S3Source):
        yield "model.source.kms_key_arn", deployment.model.source.kms_key_arn


@deployment_rule(
    "DPD-DATA-018",
    severity=Severity.ERROR,
    title="keys of volumes and of the model's bucket are of the deployment's region",
    sources=("KMS developer guide: a key is used in its own region; a multi-Region key has an ARN in each",),
)
def keys_are_near(deployment: Deployment) -> Iterator[Problem]:
    """EBS and S3 refuse a key of another region, when the first node or object comes."""
    for path, arn in _keys(deployment):
        if arn is not None and (region := arn.split(":")[3]) != deployment.region:
            yield Problem(
                path=path,
                says="the key is of another region",
                given=f"`{arn}`",
                computed=f"it is in `{region}`",
                limit=f"`{deployment.region}`",
                fix="name a key of this region, or the replica of a multi-Region key in it",
            )
