"""The bucket from which HyperPod fetches the script that prepares every new node."""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as s3_deployment
from constructs import Construct

from hyperpod_dpd.derive.bucket import LIFECYCLE_PREFIX
from hyperpod_dpd.security.logs import log_group
from hyperpod_dpd.storage.bucket import AccessLogs, PrivateBucket, bucket_name

_FOLDER = Path(__file__).parent / "lifecycle"
_PREFIX = "lifecycle"


class LifecycleScripts(Construct):
    """Uploads the folder `lifecycle/` to a bucket of its own.

    Attributes:
        bucket: the bucket; its name starts with `sagemaker-`, because HyperPod's managed policy reads only such buckets.
        uri: S3 address of the folder.
        on_create: name of the script that HyperPod runs once on every new node.
        upload: the upload; a cluster depends on it, or its first node finds an empty folder.
    """

    on_create = "on_create.sh"

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: str,
        access_logs: AccessLogs,
        removal_policy: cdk.RemovalPolicy,
        log_key: kms.IKey,
        log_retention_days: int = 90,
    ) -> None:
        """Create bucket and upload.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: name of the deployment, part of the bucket's name.
            access_logs: where the bucket's access logs go.
            removal_policy: whether bucket and log outlive the stack.
            log_key: key of the upload's own log.
            log_retention_days: days that this log is kept, a value that CloudWatch Logs accepts.
        """
        super().__init__(scope, construct_id)
        self.bucket: s3.IBucket = PrivateBucket(
            self,
            "Scripts",
            name=bucket_name(LIFECYCLE_PREFIX, deployment, cdk.Stack.of(self)),
            access_logs=access_logs,
            removal_policy=removal_policy,
        ).bucket
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
