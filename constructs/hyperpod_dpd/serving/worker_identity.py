"""What workers may do in AWS."""

from constructs import Construct

from hyperpod_dpd.cluster.handle import ClusterHandle
from hyperpod_dpd.security.identities import PodIdentity
from hyperpod_dpd.serving import names
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked


class WorkerIdentity(PodIdentity):
    """The role of the workers of a deployment, which read their weights with it: `bucket.grant_read(identity)`.

    On the self-managed backend; the operator's workers read with the identity of its S3 driver.
    """

    @checked
    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, handle: ClusterHandle
    ) -> None:
        """Create role and association.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: whose workers they are.
            handle: the cluster on which they run.
        """
        super().__init__(
            scope,
            construct_id,
            eks_name=handle.eks_name,
            eks_arn=handle.eks_arn,
            namespace=names.workers_namespace(deployment),
            service_account=names.WORKER_SERVICE_ACCOUNT,
            description=f"{names.WORKER_SERVICE_ACCOUNT} of {deployment.name}",
        )
