"""DPD-DATA-013: an import knows a folder to copy, and a bucket to copy it to."""

from collections.abc import Iterator

from hyperpod_dpd.derive.model_store import has_bucket
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, FolderOrigin, S3Source
from hyperpod_dpd.spec.model import ModelSource


@deployment_rule(
    "DPD-DATA-013",
    severity=Severity.ERROR,
    title="an import names a folder with the model, and the source has a bucket that takes it",
    sources=("this project: an address without a key lists a whole bucket",),
)
def import_has_both_ends(deployment: Deployment) -> Iterator[Problem]:
    """A bucket's name alone would copy everything in it; without a bucket nothing would be copied, silently."""
    model = deployment.model
    if model.imported_from is None:
        return
    if not has_bucket(deployment):
        yield Problem(
            path="model.imported_from",
            says="there is no bucket to which the model could be copied",
            given=f"`type: {model.imported_from.type}` with `source.type: {model.source.type}`",
            limit="`source.type: s3`, or `fsx` without `file_system_id`",
            fix="remove `imported_from`, or set `source: {type: s3}`",
        )
    if isinstance(model.imported_from, FolderOrigin) and not model.imported_from.uri[5:].partition("/")[2]:
        yield Problem(
            path="model.imported_from.uri",
            says="the address names a bucket and no folder in it",
            given=f"`uri: {model.imported_from.uri}`",
            limit="`s3://bucket/folder`, the folder that holds `config.json`",
            fix=f"write `{model.imported_from.uri.rstrip('/')}/…` with the folder of the model",
        )
    elif isinstance(model.imported_from, FolderOrigin) and _own_folder(model.source) == (
        model.imported_from.uri.rstrip("/")
    ):
        yield Problem(
            path="model.imported_from.uri",
            says="the folder would be imported into itself",
            given=f"`uri: {model.imported_from.uri}`",
            fix="remove `imported_from`: the model is there already",
        )


def _own_folder(source: ModelSource) -> str | None:
    if not isinstance(source, S3Source) or source.bucket is None or not source.prefix.strip("/"):
        return None
    return f"s3://{source.bucket}/{source.prefix.strip('/')}"
