"""A construct in which a platform team hides its conventions: product teams give a file and get a cluster.

The conventions here: a private API endpoint, no public addresses, tags for accounting, every event of a failing node to
the on-call topic, and both sets of rules as part of every synthesis.
"""

import dataclasses
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sns as sns
from constructs import Construct

from hyperpod_dpd import (
    AccessLogs,
    Deployment,
    DpdCluster,
    DpdNetwork,
    HyperPodCluster,
    HyperPodDependencies,
    LifecycleScripts,
    TemplateRules,
    apply_rules,
    load,
    logs_key,
)

DEPLOYMENT = Path(__file__).parents[1] / "deployments/llama-3.3-70b-p5.yaml"


def our_way(deployment: Deployment) -> Deployment:
    """Return `deployment` with what nobody may choose."""
    cluster = dataclasses.replace(deployment.cluster, endpoint_access="private")
    accepted = tuple(entry for entry in deployment.acknowledge if entry.rule != "DPD-EKS-001")
    return dataclasses.replace(deployment, cluster=cluster, acknowledge=accepted)


class AcmeInference(Construct):
    """Network, EKS and HyperPod of one product team.

    Attributes:
        network: the network, to let others in: `sg.connections.allow_to(inference.network, port)`.
        hyperpod: the HyperPod cluster.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        cost_centre: str,
        on_call: sns.ITopic,
    ) -> None:
        """Create everything of `deployment` up to its nodes.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: what the team wants.
            cost_centre: who pays.
            on_call: who is told when a node fails.
        """
        super().__init__(scope, construct_id)
        deployment = our_way(deployment)
        apply_rules(self, deployment)
        name = deployment.name
        self.network = DpdNetwork(self, "Network", spec=deployment.network, name=name)
        cluster = DpdCluster(self, "Cluster", spec=deployment.cluster, network=self.network, name=name)
        key = logs_key(self, "LogsKey", removal_policy=cdk.RemovalPolicy.RETAIN)
        access_logs = AccessLogs(self, "AccessLogs", removal_policy=cdk.RemovalPolicy.RETAIN)
        self.hyperpod = HyperPodCluster(
            self,
            "HyperPod",
            name=deployment.cluster_name,
            spec=deployment.hyperpod,
            cluster=cluster.cluster,
            network=self.network,
            scripts=LifecycleScripts(self, "Scripts", name=name, log_key=key, access_logs=access_logs),
            chart=HyperPodDependencies(
                self, "Dependencies", cluster=cluster.cluster, network=self.network, log_key=key
            ),
            needs=[cluster.ready],
        )
        self.hyperpod.on_cluster_event("NodeTrouble", target=targets.SnsTopic(on_call))
        # a tag on the HyperPod cluster itself cannot be changed later without permission to tag it
        cdk.Tags.of(self).add("cost-centre", cost_centre, exclude_resource_types=["AWS::SageMaker::Cluster"])


class Chat(cdk.Stack):
    """What a product team writes."""

    def __init__(self, scope: cdk.App, construct_id: str, *, deployment: Deployment) -> None:
        """Create the inference of the team's file."""
        super().__init__(scope, construct_id, env=cdk.Environment(region=deployment.region))
        topic = sns.Topic.from_topic_arn(
            self, "OnCall", f"arn:aws:sns:{deployment.region}:123456789012:on-call"
        )
        AcmeInference(self, "Inference", deployment=deployment, cost_centre="4711", on_call=topic)


if __name__ == "__main__":
    app = cdk.App()
    cdk.Validations.of(app).add_plugins(TemplateRules())
    Chat(app, "chat", deployment=load(DEPLOYMENT).deployment)
    app.synth()
