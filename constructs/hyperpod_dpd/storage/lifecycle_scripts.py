"""The bucket from which HyperPod fetches the script that prepares every new node."""

from pathlib import Path
from typing import ClassVar

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as s3_deployment
from constructs import Construct

from hyperpod_dpd.derive.bucket import LIFECYCLE_PREFIX
from hyperpod_dpd.security.logs import log_group
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.forms import Label
from hyperpod_dpd.storage.bucket import AccessLogs, PrivateBucket, bucket_name_of_attempt
from hyperpod_dpd.storage.removal import kept_when_full

_FOLDER = Path(__file__).parent / "lifecycle"
_PREFIX = "lifecycle"


class LifecycleScripts(Construct):
    """Uploads the folder `lifecycle/` to a bucket of its own, or to one of yours.

    Attributes:
        bucket: the bucket; its name starts with `sagemaker-`, because HyperPod's managed policy reads only such buckets.
        uri: S3 address of the folder.
        on_create: name of the script that HyperPod runs once on every new node.
        upload: the upload; a cluster depends on it, or its first node finds an empty folder.
    """

    bucket: s3.IBucket
    uri: str
    on_create: ClassVar[str] = "on_create.sh"
    upload: s3_deployment.BucketDeployment

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: Label,
        log_key: kms.IKey,
        access_logs: AccessLogs | None = None,
        bucket: s3.IBucket | None = None,
        log_retention_days: int = 90,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create bucket and upload.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            name: name of the deployment, part of the bucket's name.
            log_key: key of the upload's own log.
            access_logs: where the access logs of the bucket of its own go.
            bucket: your bucket instead of one of its own; only the folder `lifecycle/` in it is written.
            log_retention_days: days that the upload's log is kept, a value that CloudWatch Logs accepts.
            removal_policy: whether bucket and log outlive the stack.

        Raises:
            ValueError: not exactly one of `access_logs` and `bucket` is given, or the name of `bucket` is known and
                HyperPod's managed policy does not read it.
        """
        super().__init__(scope, construct_id)
        if (access_logs is None) == (bucket is None):
            raise ValueError(
                f"lifecycle scripts go to one bucket: given {'none' if bucket is None else 'both'} of `access_logs` and "
                "`bucket`. help: give `access_logs`, for a bucket of their own, or yours as `bucket`"
            )
        if access_logs is not None:
            bucket = PrivateBucket(
                self,
                "Scripts",
                name=bucket_name_of_attempt(LIFECYCLE_PREFIX, name, cdk.Stack.of(self)),
                access_logs=access_logs,
                # the upload fills it before HyperPod can refuse the cluster, for a quota of zero for example
                removal_policy=kept_when_full(removal_policy),
            ).bucket
        assert bucket is not None
        self.bucket = _readable(bucket)
        self.upload = s3_deployment.BucketDeployment(
            self,
            "Upload",
            # the whole folder: a script that sources a file that was left behind fails on the node, hours later
            sources=[s3_deployment.Source.asset(str(_FOLDER))],
            destination_bucket=self.bucket,
            destination_key_prefix=_PREFIX,
            log_group=log_group(
                self,
                "UploadLogs",
                key=log_key,
                retention_days=log_retention_days,
                removal_policy=removal_policy,
            ),
        )
        self.uri = f"s3://{self.bucket.bucket_name}/{_PREFIX}"


def _readable(bucket: s3.IBucket) -> s3.IBucket:
    name = bucket.bucket_name
    if not cdk.Token.is_unresolved(name) and not name.startswith(LIFECYCLE_PREFIX):
        raise ValueError(
            f"DPD-HP-004 HyperPod cannot read the lifecycle scripts: given bucket `{name}`; limit names that start with "
            f"`{LIFECYCLE_PREFIX}`. help: choose such a bucket, or leave `bucket` out"
        )
    return bucket
