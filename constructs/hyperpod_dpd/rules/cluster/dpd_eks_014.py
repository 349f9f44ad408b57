"""DPD-EKS-014: the add-ons' pods fit on the system nodes."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.system_nodes import system_instance
from hyperpod_dpd.rules.cluster.addon_pods import pods_of_cluster, pods_per_node
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-014",
    severity=Severity.ERROR,
    title="system nodes hold the pods of all add-ons while one node is replaced",
    sources=(
        "awslabs/ai-on-sagemaker-hyperpod #142 (Too many pods)",
        "awslabs/amazon-eks-ami eni-max-pods.txt",
    ),
    facts=("P16",),
)
def system_nodes_hold_the_addons(deployment: Deployment) -> Iterator[Problem]:
    """Pods are limited by network interfaces: a small node type runs out of them long before memory."""
    nodes = deployment.cluster.system_nodes
    instance = system_instance(nodes.instance_type)
    if instance is None:
        return
    daemons, cluster_pods = pods_per_node(deployment.platform), pods_of_cluster(deployment.platform)
    room = (nodes.count - 1) * (instance.max_pods - daemons)
    if room < cluster_pods:
        yield Problem(
            path="cluster.system_nodes",
            says="system nodes are too small for the add-ons' pods",
            given=f"{nodes.count} × `{nodes.instance_type}` with {instance.max_pods} pods each",
            computed=f"{nodes.count - 1} × ({instance.max_pods} − {daemons} on every node) = {room} while one is replaced",
            limit=f"{cluster_pods} pods of add-ons and router",
            fix="choose a larger type, such as `m6i.xlarge`, or more nodes",
        )
