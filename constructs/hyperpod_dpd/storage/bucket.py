"""Buckets as this project makes them: private, encrypted, versioned, logged, TLS only."""

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from hyperpod_dpd.derive.bucket import bucket_name as name_of_bucket
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.storage.removal import kept_when_full

_NONCURRENT_DAYS = 90
_ACCESS_LOG_DAYS = 365


def bucket_name(prefix: str, deployment: str, stack: cdk.Stack) -> str:
    """Return a name that starts with `prefix` and is the deployment's own in every account and region.

    See `hyperpod_dpd.derive.bucket.bucket_name`.
    """
    return name_of_bucket(prefix, deployment, account=stack.account, region=stack.region)


def bucket_name_of_attempt(prefix: str, deployment: str, stack: cdk.Stack) -> str:
    """Return such a name that is another one whenever `stack` is created anew.

    It is for a bucket that is full as soon as it is there: the roll-back of a first creation cannot delete it, so it is
    kept, and would be in the way of the next attempt under a name of the deployment alone.
    """
    # a stack's id ends with a UUID, arn:…:stack/<name>/<8 digits>-…, whose first digits are of the time
    uuid = cdk.Fn.select(2, cdk.Fn.split("/", stack.stack_id))
    attempt = cdk.Fn.select(0, cdk.Fn.split("-", uuid))
    return name_of_bucket(prefix, deployment, account=stack.account, region=stack.region, attempt=attempt)


class AccessLogs(Construct):
    """Bucket that receives the server access logs of the other buckets.

    Attributes:
        bucket: the bucket.
    """

    bucket: s3.Bucket

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        removal_policy: cdk.RemovalPolicy,
    ) -> None:
        """Create it; `removal_policy` says whether it outlives the stack."""
        super().__init__(scope, construct_id)
        self.bucket = _bucket(
            self, removal_policy=removal_policy, expiration=cdk.Duration.days(_ACCESS_LOG_DAYS)
        )

    def receive_from(self, bucket: s3.Bucket, prefix: str) -> None:
        """Send the access logs of `bucket` here, below `prefix`.

        `server_access_logs_bucket` does it with an ACL unless a feature flag is set, and a bucket without ACLs then
        refuses; a library cannot count on its user's flags.
        """
        self.bucket.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("logging.s3.amazonaws.com")],
                actions=["s3:PutObject"],
                resources=[self.bucket.arn_for_objects(f"{prefix}*")],
                conditions={
                    "ArnLike": {"aws:SourceArn": bucket.bucket_arn},
                    "StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account},
                },
            )
        )
        resource = cast(s3.CfnBucket, bucket.node.default_child)
        resource.logging_configuration = s3.CfnBucket.LoggingConfigurationProperty(
            destination_bucket_name=self.bucket.bucket_name, log_file_prefix=prefix
        )


class PrivateBucket(Construct):
    """A bucket for the deployment's own files.

    Attributes:
        bucket: the bucket.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str | None = None,
        access_logs: AccessLogs,
        key: kms.IKey | None = None,
        removal_policy: cdk.RemovalPolicy,
    ) -> None:
        """Create it.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            name: bucket name where others expect one, see `bucket_name`; absent: CloudFormation's own, in which the
                stack's name comes first.
            access_logs: where its access logs go.
            key: customer managed key of its objects; absent: S3's own.
            removal_policy: whether it outlives the stack; DESTROY also empties it.
        """
        super().__init__(scope, construct_id)
        self.bucket = _bucket(
            self,
            name=name,
            key=key,
            removal_policy=removal_policy,
            abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
        )
        access_logs.receive_from(self.bucket, f"{construct_id.lower()}/")


def _bucket(
    scope: Construct,
    *,
    removal_policy: cdk.RemovalPolicy,
    name: str | None = None,
    key: kms.IKey | None = None,
    expiration: cdk.Duration | None = None,
    abort_incomplete_multipart_upload_after: cdk.Duration | None = None,
) -> s3.Bucket:
    return s3.Bucket(
        scope,
        "Bucket",
        bucket_name=name,
        # S3's log delivery writes with its service principal, and only with S3's own keys
        encryption=s3.BucketEncryption.S3_MANAGED if key is None else s3.BucketEncryption.KMS,
        encryption_key=key,
        # without it every one of the weights' files is a call of KMS for every worker
        bucket_key_enabled=None if key is None else True,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        versioned=True,
        lifecycle_rules=[
            s3.LifecycleRule(
                expiration=expiration,
                noncurrent_version_expiration=cdk.Duration.days(_NONCURRENT_DAYS),
                abort_incomplete_multipart_upload_after=abort_incomplete_multipart_upload_after,
            )
        ],
        removal_policy=removal_policy if name is not None else kept_when_full(removal_policy),
        auto_delete_objects=removal_policy is cdk.RemovalPolicy.DESTROY,
    )
