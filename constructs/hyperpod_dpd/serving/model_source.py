"""Where the weights come from, and what the engine is told about it.

Pure Python: the engine configuration adds these arguments, the worker mounts what they name.
"""

from hyperpod_dpd.catalog.models import model as catalog_model
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.names import MODEL_DIRECTORY
from hyperpod_dpd.spec import Deployment, FsxSource, HuggingFaceSource, S3Source, VolumeSource


def repository(deployment: Deployment) -> str:
    """Repository of the model on the Hugging Face Hub.

    Raises:
        UnknownCatalogEntryError: neither the deployment nor the catalog names one.
    """
    return deployment.model.repository or catalog_model(deployment.model.name).repository


def key_prefix(deployment: Deployment) -> str:
    """Key prefix of the model folder in its bucket, without slashes at its ends.

    A folder per revision: a new revision is a new folder, so that running workers never read half of each.
    """
    source = deployment.model.source
    given = source.prefix if isinstance(source, S3Source) else ""
    return given.strip("/") or f"models/{deployment.model.name}/{deployment.model.revision or 'unpinned'}"


def bucket(deployment: Deployment) -> str:
    """Name of the bucket with the weights, or its binding where this deployment creates it."""
    source = deployment.model.source
    given = source.bucket if isinstance(source, S3Source) else None
    return given or Binding.MODEL_BUCKET.placeholder


def s3_uri(deployment: Deployment) -> str:
    """`s3://bucket/prefix` of the model folder."""
    return f"s3://{bucket(deployment)}/{key_prefix(deployment)}"


def model_argument(deployment: Deployment) -> str:
    """What `--model` names: a repository, an S3 folder, or a folder of the worker's file system.

    LMCache's keys contain it, so both roles get the same text.
    """
    match deployment.model.source:
        case HuggingFaceSource():
            return repository(deployment)
        case S3Source(delivery="stream"):
            return s3_uri(deployment)
        case FsxSource(file_system_id=None, path="/"):
            # a new file system shows the bucket's keys as paths
            return f"{MODEL_DIRECTORY}/{key_prefix(deployment)}"
        case FsxSource(path=path) | VolumeSource(path=path):
            return f"{MODEL_DIRECTORY}/{path.strip('/')}".rstrip("/")
        case _:
            return MODEL_DIRECTORY


def load_arguments(deployment: Deployment) -> tuple[str, ...]:
    """Return the vLLM arguments that belong to the source of the weights."""
    revision = deployment.model.revision
    match deployment.model.source:
        case S3Source(delivery="stream"):
            return ("--load-format", "runai_streamer")
        case HuggingFaceSource() if revision:
            return ("--revision", revision, "--tokenizer-revision", revision)
        case _:
            return ()
