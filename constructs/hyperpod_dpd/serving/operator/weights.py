"""`modelSourceConfig`: where the operator fetches the weights."""

from typing import Any, Final

from hyperpod_dpd.catalog.operator import REFERENCE
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.model_source import bucket, key_prefix, repository
from hyperpod_dpd.serving.operator.given import given
from hyperpod_dpd.serving.secrets import HUGGING_FACE_KEY, HUGGING_FACE_SECRET
from hyperpod_dpd.spec import Deployment, FsxSource, HuggingFaceSource, S3Source, VolumeSource

MODEL_VOLUME: Final = "model-weights"
"""Volume with the weights in the operator's pods."""


def model_source_config(deployment: Deployment) -> dict[str, Any]:
    """Return `modelSourceConfig`."""
    prefetch = {"prefetchEnabled": True} if deployment.serving.operator.prefetches_weights else {}
    return {**_source(deployment), **prefetch}


def model_volume_mount() -> dict[str, str]:
    """Return `worker.modelVolumeMount`: the folder of the model, whatever its source."""
    return {"name": MODEL_VOLUME, "mountPath": REFERENCE.model_directory}


def pod_customization(deployment: Deployment) -> dict[str, Any]:
    """Return `kubernetes`: the claim behind a model volume that exists already, else nothing.

    That a volume of this name replaces the one that the operator makes is read from the field names of the custom
    resource; AWS's documentation does not show it.
    """
    source = deployment.model.source
    if not isinstance(source, VolumeSource):
        return {}
    claim = {"claimName": source.claim, "readOnly": True}
    return {"kubernetes": {"volumes": [{"name": MODEL_VOLUME, "persistentVolumeClaim": claim}]}}


def _source(deployment: Deployment) -> dict[str, Any]:
    match deployment.model.source:
        case S3Source():
            return {
                "modelSourceType": "s3",
                "modelLocation": key_prefix(deployment),
                "s3Storage": {"bucketName": bucket(deployment), "region": deployment.region},
            }
        case FsxSource() as source:
            return {
                "modelSourceType": "fsx",
                **_folder(_on_file_system(deployment, source)),
                "fsxStorage": {
                    "fileSystemId": source.file_system_id or Binding.FSX_FILE_SYSTEM_ID.placeholder,
                    "dnsName": source.dns_name or Binding.FSX_DNS_NAME.placeholder,
                    "mountName": source.mount_name or Binding.FSX_MOUNT_NAME.placeholder,
                },
            }
        case HuggingFaceSource() as source:
            token = {"name": HUGGING_FACE_SECRET, "key": HUGGING_FACE_KEY} if source.token_secret else None
            return {
                "modelSourceType": "huggingface",
                "huggingFaceModel": {
                    "modelId": repository(deployment),
                    **given(commitSHA=deployment.model.revision, tokenSecretRef=token),
                },
            }
        case VolumeSource() as source:
            return {"modelSourceType": "kubernetesVolume", **_folder(source.path)}


def _on_file_system(deployment: Deployment, source: FsxSource) -> str:
    """A new file system shows the bucket's keys as paths."""
    new = source.file_system_id is None and source.path == "/"
    return key_prefix(deployment) if new else source.path


def _folder(path: str) -> dict[str, str]:
    """Return `modelLocation`; the root of a volume is no folder of it."""
    return given(modelLocation=path.strip("/") or None)
