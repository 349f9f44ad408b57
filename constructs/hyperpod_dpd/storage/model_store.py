"""The bucket from which workers, the operator and the file system get the weights."""

from collections.abc import Mapping
from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from hyperpod_dpd.derive.model_store import MANIFEST_SUFFIX, has_bucket, makes_bucket
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.model_source import key_prefix
from hyperpod_dpd.spec import Deployment, S3Source
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.storage.bucket import AccessLogs, PrivateBucket
from hyperpod_dpd.storage.object_key import READ, WRITE, key_statements


class ModelStore(Construct):
    """Bucket with the model's folder: one that the deployment makes, or one that is there already.

    Attributes:
        bucket: the bucket.
        prefix: key prefix of the model's folder, without slashes at its ends.
        bindings: what the rendered objects need of it; nothing where the bucket is given, they name it themselves.
    """

    bucket: s3.IBucket
    prefix: str
    bindings: Mapping[Binding, str]

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        access_logs: AccessLogs,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create the bucket, or refer to the given one.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: whose model it holds.
            access_logs: where the access logs of a new bucket go.
            removal_policy: whether a new bucket outlives the stack; a given one always does.

        Raises:
            ValueError: the source of the weights has no bucket, see `derive.model_store.has_bucket`.
        """
        super().__init__(scope, construct_id)
        if not has_bucket(deployment):
            raise ValueError(
                f"deployment `{deployment.name}` has no model bucket: given "
                f"`model.source.type: {deployment.model.source.type}`. help: leave the store out"
            )
        self.prefix = key_prefix(deployment)
        source = deployment.model.source
        self._key_arn = source.kms_key_arn if isinstance(source, S3Source) else None
        self.bindings = {}
        if makes_bucket(deployment):
            self.bucket = PrivateBucket(
                self,
                "Models",
                access_logs=access_logs,
                key=kms.Key.from_key_arn(self, "Key", self._key_arn) if self._key_arn else None,
                removal_policy=removal_policy,
            ).bucket
            self.bindings[Binding.MODEL_BUCKET] = self.bucket.bucket_name
        else:
            given = cast(S3Source, source)
            self.bucket = s3.Bucket.from_bucket_name(self, "Models", cast(str, given.bucket))

    @property
    def manifest_key(self) -> str:
        """Key of the completion marker: it is there once every file of the folder is."""
        return f"{self.prefix}{MANIFEST_SUFFIX}"

    def read_statements(self) -> list[iam.PolicyStatement]:
        """Return what a worker needs: listing and reading the model's folder, and nothing beside it."""
        return [
            iam.PolicyStatement(
                actions=["s3:ListBucket"],
                resources=[self.bucket.bucket_arn],
                conditions={"StringLike": {"s3:prefix": [f"{self.prefix}/*", self.prefix]}},
            ),
            iam.PolicyStatement(
                actions=["s3:GetObject"], resources=[self.bucket.arn_for_objects(f"{self.prefix}/*")]
            ),
            *key_statements(self._key_arn, READ),
        ]

    def write_statements(self) -> list[iam.PolicyStatement]:
        """Return what an import needs: writing the folder and its marker, and deleting the marker only."""
        objects = [
            self.bucket.arn_for_objects(f"{self.prefix}/*"),
            self.bucket.arn_for_objects(self.manifest_key),
        ]
        return [
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[self.bucket.bucket_arn]),
            iam.PolicyStatement(
                actions=["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"], resources=objects
            ),
            # a marker that is not true any more goes before the first file is replaced
            iam.PolicyStatement(
                actions=["s3:DeleteObject"], resources=[self.bucket.arn_for_objects(self.manifest_key)]
            ),
            *key_statements(self._key_arn, WRITE),
        ]

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` read the model."""
        for statement in self.read_statements():
            grantee.grant_principal.add_to_principal_policy(statement)
