"""The network stack."""

import aws_cdk as cdk
from constructs import Construct

from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.network import ClusterNetwork, DpdNetwork
from hyperpod_dpd.network.existing import ExistingVpc
from hyperpod_dpd.spec import Deployment
from stacks.parameters import publish
from stacks.removal import removal_policy


class NetworkStack(cdk.Stack):
    """VPC, subnets by zone id, way out, EFA security group; in a VPC of somebody else what is added to it.

    Attributes:
        network: the network, as clusters take it.
    """

    network: ClusterNetwork

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        """Wire the network of `deployment`."""
        super().__init__(
            scope,
            construct_id,
            env=cdk.Environment(account=deployment.account, region=deployment.region),
            description=f"Network of {deployment.name}: disaggregated serving on SageMaker HyperPod",
        )
        self.network = self._network(deployment)
        publish(
            self,
            deployment,
            {
                Parameter.VPC_ID: self.network.vpc.vpc_id,
                Parameter.GPU_SUBNET_ID: self.network.gpu_subnet.subnet_id,
                Parameter.SYSTEM_SUBNET_IDS: ",".join(
                    subnet.subnet_id for subnet in self.network.system_subnets
                ),
                Parameter.EFA_SECURITY_GROUP_ID: self.network.efa_security_group.security_group_id,
            },
        )

    def _network(self, deployment: Deployment) -> ClusterNetwork:
        spec = deployment.network
        if spec.existing is not None:
            existing = ExistingVpc(self, "Existing", spec=spec, vpc=spec.existing, region=deployment.region)
            return existing.network
        return DpdNetwork(
            self,
            "Network",
            spec=spec,
            name=deployment.name,
            removal_policy=removal_policy(deployment),
        )
