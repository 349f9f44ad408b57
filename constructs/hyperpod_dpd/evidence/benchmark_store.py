"""Where results of benchmarks are kept, and the job's right to put them there."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from hyperpod_dpd.derive.bucket import RESULTS_PREFIX
from hyperpod_dpd.evidence.benchmark_job import SERVICE_ACCOUNT
from hyperpod_dpd.evidence.benchmark_plan import RESULTS_FOLDER
from hyperpod_dpd.security.identities import PodIdentity
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.storage import AccessLogs, ModelStore, PrivateBucket, bucket_name


class BenchmarkStore(Construct):
    """Bucket of a deployment's results, and the identity of its benchmark job.

    The job may write results and read the tokenizer in the model's folder; it may neither read nor delete results, so that
    a broken one does not take earlier ones along.

    Attributes:
        bucket: the bucket.
        role: the job's role.
        bindings: what the job's manifests need to know.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        eks_name: str,
        eks_arn: str,
        access_logs: AccessLogs,
        models: ModelStore | None,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create bucket, role and the association with the job's ServiceAccount.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: whose benchmarks they are.
            eks_name: name of the EKS cluster.
            eks_arn: its ARN.
            access_logs: where the bucket's access logs go.
            models: where the tokenizer is; None where the model does not come from S3.
            removal_policy: whether the bucket outlives the stack; DESTROY also empties it.
        """
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        self.bucket = PrivateBucket(
            self,
            "Results",
            name=bucket_name(RESULTS_PREFIX, deployment.name, stack),
            access_logs=access_logs,
            removal_policy=removal_policy,
        ).bucket
        self.role = PodIdentity(
            self,
            "Identity",
            eks_name=eks_name,
            eks_arn=eks_arn,
            namespace=names.system_namespace(deployment),
            service_account=SERVICE_ACCOUNT,
            description=f"Benchmark job of {deployment.name}",
        ).role
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=["s3:PutObject"],
                resources=[self.bucket.arn_for_objects(f"{RESULTS_FOLDER}/{deployment.name}/*")],
            )
        )
        if models is not None:
            models.grant_read(self.role)
        self.bindings = {Binding.RESULTS_BUCKET: self.bucket.bucket_name}
