"""How the weights get to a worker: streamed by the engine, copied first, or mounted."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from constructs import Construct

from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.engine import ConfigFile, Resources
from hyperpod_dpd.serving.model_source import s3_uri
from hyperpod_dpd.serving.names import CONFIG_DIRECTORY, MODEL_DIRECTORY
from hyperpod_dpd.serving.objects import api_object
from hyperpod_dpd.serving.pod import Container, Privilege, Volume, empty_dir, secret_entry
from hyperpod_dpd.serving.secrets import HUGGING_FACE_KEY, HUGGING_FACE_SECRET, hugging_face_secret
from hyperpod_dpd.spec import Deployment, FsxSource, S3Source, VolumeSource

SYNC_SCRIPT: Final = "sync_model.py"
MODEL_VOLUME: Final = "model"
FSX_CLAIM: Final = "model"
"""PersistentVolumeClaim of the FSx file system, in the workers' namespace."""

_ACCESS_MODES: Final = ["ReadWriteMany"]
"""The FSx driver refuses `ReadOnlyMany` (aws-fsx-csi-driver, pkg/driver/controller.go); it is mounted read-only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDelivery:
    """What a worker's pod carries so that its engine finds the weights."""

    files: tuple[ConfigFile, ...] = ()
    environment: tuple[dict[str, Any], ...] = ()
    volumes: tuple[Volume, ...] = ()
    copies_first: bool = False
    """Whether an init container copies the weights to the `model` volume before the engine starts."""


def model_delivery(deployment: Deployment) -> ModelDelivery:
    """Return what the source of the weights asks of a worker's pod."""
    match deployment.model.source:
        case S3Source(delivery="sync"):
            return ModelDelivery(
                files=(ConfigFile(name=SYNC_SCRIPT, text=script(SYNC_SCRIPT)),),
                volumes=(Volume(name=MODEL_VOLUME, path=MODEL_DIRECTORY, source=empty_dir()),),
                copies_first=True,
            )
        case S3Source():
            # boto3 certainly takes EKS Pod Identity's credentials; the streamer's own chain depends on its SDK
            return ModelDelivery(environment=({"name": "RUNAI_STREAMER_NO_BOTO3_SESSION", "value": "0"},))
        case FsxSource():
            return ModelDelivery(volumes=(_claimed(FSX_CLAIM),))
        case VolumeSource(claim=claim):
            return ModelDelivery(volumes=(_claimed(claim),))
        case _ if hugging_face_secret(deployment) is not None:
            token = secret_entry("HF_TOKEN", secret=HUGGING_FACE_SECRET, key=HUGGING_FACE_KEY)
            return ModelDelivery(environment=(token,))
        case _:
            return ModelDelivery()


def sync_container(
    deployment: Deployment, *, image: str, volumes: tuple[Volume, ...], resources: Resources
) -> Container:
    """Return the init container that copies the weights to node-local storage.

    It has no capability, no device and no volume but the ones it needs. It may use the worker's CPU, memory and
    disk: a pod asks for the larger of the two, so that they cost nothing.
    """
    size = {
        "memory": f"{resources.memory_gib}Gi",
        "ephemeral-storage": f"{resources.ephemeral_storage_gib}Gi",
    }
    return Container(
        name="model",
        image=image,
        command=("python3", f"{CONFIG_DIRECTORY}/{SYNC_SCRIPT}"),
        arguments=(s3_uri(deployment), MODEL_DIRECTORY),
        environment=({"name": "AWS_REGION", "value": deployment.region},),
        resources={"requests": {"cpu": resources.cpus, **size}, "limits": size},
        privilege=Privilege(root=True),
        volumes=tuple(volume for volume in volumes if volume.path in (CONFIG_DIRECTORY, MODEL_DIRECTORY)),
    )


def script(name: str) -> str:
    """Return the text of a program that runs inside a worker."""
    return files("hyperpod_dpd.serving.scripts").joinpath(name).read_text(encoding="utf-8")


class ModelVolume(Construct):
    """The FSx for Lustre file system as a volume that the workers can read and nobody else can claim."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, source: FsxSource
    ) -> None:
        super().__init__(scope, construct_id)
        namespace = names.workers_namespace(deployment)
        labels = names.labels(deployment)
        volume = f"{deployment.name}-model"
        capacity = f"{source.storage_gib}Gi"
        api_object(
            self,
            "volume",
            api_version="v1",
            kind="PersistentVolume",
            name=volume,
            labels=labels,
            spec={
                "accessModes": _ACCESS_MODES,
                "capacity": {"storage": capacity},
                "claimRef": {"namespace": namespace, "name": FSX_CLAIM},
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "volumeMode": "Filesystem",
                "mountOptions": ["ro", "noatime", "flock"],
                "csi": {
                    "driver": "fsx.csi.aws.com",
                    "volumeHandle": source.file_system_id or Binding.FSX_FILE_SYSTEM_ID.placeholder,
                    "volumeAttributes": {
                        "dnsname": source.dns_name or Binding.FSX_DNS_NAME.placeholder,
                        "mountname": source.mount_name or Binding.FSX_MOUNT_NAME.placeholder,
                    },
                },
            },
        )
        api_object(
            self,
            "claim",
            api_version="v1",
            kind="PersistentVolumeClaim",
            name=FSX_CLAIM,
            namespace=namespace,
            labels=labels,
            spec={
                "accessModes": _ACCESS_MODES,
                "resources": {"requests": {"storage": capacity}},
                "storageClassName": "",
                "volumeMode": "Filesystem",
                "volumeName": volume,
            },
        )


def _claimed(claim: str) -> Volume:
    return Volume(
        name=MODEL_VOLUME,
        path=MODEL_DIRECTORY,
        source={"persistentVolumeClaim": {"claimName": claim, "readOnly": True}},
        read_only=True,
    )
