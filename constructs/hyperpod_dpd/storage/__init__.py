"""What the deployment stores in S3 and on file systems, and what keeps it from being deleted."""

from hyperpod_dpd.storage.bucket import AccessLogs, PrivateBucket, bucket_name
from hyperpod_dpd.storage.lifecycle_scripts import LifecycleScripts
from hyperpod_dpd.storage.model_file_system import ModelFileSystem
from hyperpod_dpd.storage.model_import import ModelImport
from hyperpod_dpd.storage.model_store import ModelStore

__all__ = [
    "AccessLogs",
    "LifecycleScripts",
    "ModelFileSystem",
    "ModelImport",
    "ModelStore",
    "PrivateBucket",
    "bucket_name",
]
