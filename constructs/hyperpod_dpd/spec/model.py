"""The model: which one, in which precision, from where."""

from typing import Annotated, Literal

from pydantic import Field

from hyperpod_dpd.spec.forms import (
    AbsolutePath,
    BucketName,
    FileSystemId,
    HostName,
    KeyPrefix,
    KmsKeyArn,
    MountName,
    ObjectName,
    Repository,
    S3Folder,
    SecretName,
    ServedName,
)
from hyperpod_dpd.spec.value import NonEmptyStr, PositiveInt, value


@value
class S3Source:
    """Weights in an S3 bucket."""

    type: Literal["s3"] = "s3"

    bucket: BucketName | None = None
    """Existing bucket; absent: this deployment creates one and imports the model into it."""

    prefix: KeyPrefix = ""
    """Key prefix of the model folder inside the bucket."""

    kms_key_arn: KmsKeyArn | None = None
    """Customer managed key of the objects in the bucket, given or made; absent: S3's own."""

    delivery: Literal["stream", "sync"] = "stream"
    """`stream`: the engine reads from S3 while it loads. `sync`: an init container copies to node-local NVMe first."""


@value
class HuggingFaceSource:
    """Weights from the Hugging Face Hub, pinned to a revision."""

    type: Literal["huggingface"]

    token_secret: SecretName | None = None
    """Name of the Secrets Manager secret that holds the access token of a gated model."""


@value
class FsxSource:
    """Weights on an FSx for Lustre file system in the GPU zone."""

    type: Literal["fsx"]

    file_system_id: FileSystemId | None = None
    """Existing file system; absent: this deployment creates one linked to the model bucket."""

    dns_name: HostName | None = None
    """DNS name of the existing file system."""

    mount_name: MountName | None = None
    """Mount name of the existing file system."""

    path: AbsolutePath = "/"
    """Folder of the model on the file system."""

    storage_gib: PositiveInt = 1200
    """Capacity of a new file system in GiB: 1200, or a multiple of 2400."""


@value
class VolumeSource:
    """Weights on a Kubernetes volume that already exists."""

    type: Literal["volume"]

    claim: ObjectName
    """Name of the PersistentVolumeClaim."""

    path: AbsolutePath = "/"
    """Folder of the model on the volume."""


ModelSource = S3Source | HuggingFaceSource | FsxSource | VolumeSource


@value
class HubOrigin:
    """The model's repository on the Hugging Face Hub, at `model.revision`."""

    type: Literal["huggingface"] = "huggingface"

    token_secret: SecretName | None = None
    """Secret in Secrets Manager with the access token of a gated model."""


@value
class FolderOrigin:
    """A folder in another S3 bucket."""

    type: Literal["s3"]

    uri: S3Folder
    """Address of the folder that holds `config.json`, such as `s3://my-models/llama`."""

    kms_key_arn: KmsKeyArn | None = None
    """Customer managed key of the objects in that folder; absent: S3's own."""


ModelOrigin = HubOrigin | FolderOrigin


@value
class Model:
    """The served model."""

    name: NonEmptyStr
    """Name in the catalog, for example `llama-3.3-70b-instruct`."""

    source: Annotated[ModelSource, Field(discriminator="type")] = S3Source()
    """Where workers get the weights from."""

    imported_from: Annotated[ModelOrigin, Field(discriminator="type")] | None = None
    """Where the model is copied from into its bucket before workers start. Absent: from nowhere where the bucket is
    given; where this deployment makes it, from the Hub, a gated model with the token in the deployment's own secret
    `hyperpod-dpd/NAME/huggingface`."""

    repository: Repository | None = None
    """Repository on the Hugging Face Hub; by default the catalog's."""

    revision: NonEmptyStr | None = None
    """Commit of the repository. A branch name is not a pin."""

    config_file: NonEmptyStr | None = None
    """Local `config.json`, relative to the deployment file, with the geometry of a model that the catalog lacks."""

    served_name: ServedName | None = None
    """Name under which clients ask for the model; by default `name`."""

    weights: Literal["bf16", "fp8"] = "bf16"
    """Precision of the weights as stored."""

    kv_cache: Literal["bf16", "fp8"] = "bf16"
    """Precision of the KV cache, equal on both roles."""

    trust_remote_code: bool = False
    """Run Python code that the model repository ships. Refused unless acknowledged."""
