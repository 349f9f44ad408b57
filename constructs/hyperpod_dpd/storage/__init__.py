"""What the deployment stores in S3, and what keeps it from being deleted."""

from hyperpod_dpd.storage.bucket import AccessLogs, PrivateBucket, bucket_name
from hyperpod_dpd.storage.lifecycle_scripts import LifecycleScripts

__all__ = ["AccessLogs", "LifecycleScripts", "PrivateBucket", "bucket_name"]
