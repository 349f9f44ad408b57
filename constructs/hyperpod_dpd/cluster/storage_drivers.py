"""The CSI drivers: both must be there before the inference add-on, which refuses a cluster without them."""

from aws_cdk import aws_iam as iam
from constructs import Construct, DependencyGroup, IDependable

from hyperpod_dpd.cluster.addons import pinned_addon
from hyperpod_dpd.cluster.handle import ClusterHandle
from hyperpod_dpd.security.identities import PodIdentity, WebIdentity
from hyperpod_dpd.spec import Cluster

S3_DRIVER = "aws-mountpoint-s3-csi-driver"
FSX_DRIVER = "aws-fsx-csi-driver"


class StorageDrivers(Construct):
    """Mountpoint for S3 and FSx for Lustre as volumes.

    Attributes:
        s3_role: identity of the S3 driver; whoever has a bucket to be mounted lets it read.
        addons: both add-ons.
        ready: the add-ons, to depend on.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: Cluster,
        handle: ClusterHandle,
        oidc_provider_arn: str,
    ) -> None:
        """Create drivers and identities.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            spec: versions of add-ons.
            handle: the cluster.
            oidc_provider_arn: ARN of the IAM identity provider of the cluster.
        """
        super().__init__(scope, construct_id)
        self.s3_role = WebIdentity(
            self,
            "S3",
            provider_arn=oidc_provider_arn,
            namespace="kube-system",
            service_account="s3-csi-driver-sa",
            description=f"Mountpoint for S3 on {handle.eks_name}",
        ).role
        fsx = PodIdentity(
            self,
            "Fsx",
            eks_name=handle.eks_name,
            eks_arn=handle.eks_arn,
            namespace="kube-system",
            service_account="fsx-csi-controller-sa",
            description=f"FSx for Lustre volumes on {handle.eks_name}",
        )
        # volumes name a file system that exists; the driver makes none, for which AWS's own policy would let it do all
        fsx.role.add_to_policy(
            iam.PolicyStatement(sid="FindFileSystems", actions=["fsx:DescribeFileSystems"], resources=["*"])
        )
        s3_driver = pinned_addon(
            self,
            S3_DRIVER,
            spec=spec,
            cluster_name=handle.eks_name,
            service_account_role_arn=self.s3_role.role_arn,
        )
        fsx_driver = pinned_addon(self, FSX_DRIVER, spec=spec, cluster_name=handle.eks_name)
        fsx_driver.node.add_dependency(fsx.association)
        self.addons = (s3_driver, fsx_driver)
        self.ready: IDependable = DependencyGroup(*self.addons)
