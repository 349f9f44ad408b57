"""Which bucket and file system a deployment makes for its weights, and what is copied there."""

from typing import Final

from hyperpod_dpd.catalog.models import model as catalog_model
from hyperpod_dpd.catalog.row import UnknownCatalogEntryError
from hyperpod_dpd.derive.secret_names import own_token_secret
from hyperpod_dpd.spec import Deployment, FsxSource, HubOrigin, Model, S3Source
from hyperpod_dpd.spec.model import ModelOrigin

MANIFEST_SUFFIX: Final = ".manifest.json"
"""Ends the key of the completion marker: `<folder>.manifest.json` beside the folder, where no engine looks for files."""


def makes_bucket(deployment: Deployment) -> bool:
    """Whether the deployment makes a bucket for its weights."""
    match deployment.model.source:
        case S3Source(bucket=None) | FsxSource(file_system_id=None):
            return True
        case _:
            return False


def makes_file_system(deployment: Deployment) -> bool:
    """Whether the deployment makes an FSx for Lustre file system that shows the bucket's objects as files."""
    source = deployment.model.source
    return isinstance(source, FsxSource) and source.file_system_id is None


def has_bucket(deployment: Deployment) -> bool:
    """Whether there is a bucket, made or given, to which a model can be copied."""
    return makes_bucket(deployment) or isinstance(deployment.model.source, S3Source)


def import_origin(deployment: Deployment) -> ModelOrigin | None:
    """Return where the model is copied from before workers start, or None where nothing is copied.

    A deployment that makes a bucket and says nothing imports from the Hub, a gated model with a secret of its own.
    """
    if not has_bucket(deployment):
        return None
    if deployment.model.imported_from is not None or not makes_bucket(deployment):
        return deployment.model.imported_from
    return HubOrigin(token_secret=own_token_secret(deployment) if is_gated(deployment.model) else None)


def is_gated(model: Model) -> bool:
    """Whether the catalog says that the model's repository asks for a token; another repository's gate is not known."""
    if model.repository is not None:
        return False
    try:
        return catalog_model(model.name).gated
    except UnknownCatalogEntryError:
        return False
