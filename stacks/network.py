"""The network stack."""

import aws_cdk as cdk
from constructs import Construct

from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.network import DpdNetwork
from hyperpod_dpd.spec import Deployment
from stacks.parameters import publish
from stacks.removal import removal_policy


class NetworkStack(cdk.Stack):
    """VPC, subnets by zone id, way out, EFA security group."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        """Wire the network of `deployment`."""
        super().__init__(
            scope,
            construct_id,
            env=cdk.Environment(account=deployment.account, region=deployment.region),
            description=f"Network of {deployment.name}: disaggregated serving on SageMaker HyperPod",
        )
        self.network = DpdNetwork(
            self,
            "Network",
            spec=deployment.network,
            name=deployment.name,
            removal_policy=removal_policy(deployment),
        )
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
