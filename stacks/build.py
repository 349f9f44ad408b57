"""All stacks of one deployment, and what holds for each of them."""

from dataclasses import dataclass

import aws_cdk as cdk

from hyperpod_dpd.security.acknowledgements import acknowledge
from hyperpod_dpd.spec import Deployment
from stacks.cluster import ClusterStack
from stacks.hyperpod import HyperPodStack
from stacks.network import NetworkStack

# a public CDK application had to take the tags off its HyperPod cluster again; a stack's own tags reach every
# resource, that one included
_UNTAGGED = ["aws:cdk:stack", "AWS::SageMaker::Cluster"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentStacks:
    """The stacks of a deployment, in the order in which they are deployed."""

    network: NetworkStack
    cluster: ClusterStack
    hyperpod: HyperPodStack

    @property
    def all(self) -> tuple[cdk.Stack, ...]:
        """Every stack."""
        return (self.network, self.cluster, self.hyperpod)


def build(app: cdk.App, deployment: Deployment) -> DeploymentStacks:
    """Add the stacks of `deployment` to `app`.

    The deployment's rules are not run here; `refuse_unless_valid` does that before.

    Raises:
        ValueError: the deployment uses a cluster that somebody else owns.
    """
    existing = deployment.cluster.existing
    if existing is not None:
        raise ValueError(
            f"nothing to build: given `cluster.existing.eks_name: {existing.eks_name}`, whose owner deploys network, "
            "cluster and HyperPod. help: synthesize the owner's deployment"
        )
    name = deployment.name
    network = NetworkStack(app, f"{name}-network", deployment=deployment)
    cluster = ClusterStack(app, f"{name}-cluster", deployment=deployment, network=network.network)
    hyperpod = HyperPodStack(
        app, f"{name}-hyperpod", deployment=deployment, network=network.network, cluster=cluster.cluster
    )
    stacks = DeploymentStacks(network=network, cluster=cluster, hyperpod=hyperpod)
    for stack in stacks.all:
        stack.termination_protection = not deployment.deletes_data
    for key, value in {"hyperpod-dpd:deployment": name, **(deployment.tags or {})}.items():
        cdk.Tags.of(app).add(key, value, exclude_resource_types=_UNTAGGED)
    acknowledge(network, "network")
    acknowledge(cluster, "cluster")
    acknowledge(hyperpod, "hyperpod")
    return stacks
