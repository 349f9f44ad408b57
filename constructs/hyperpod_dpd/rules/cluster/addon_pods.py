"""How many pods the platform brings to the system nodes."""

from hyperpod_dpd.spec.platform import Platform


def pods_per_node(platform: Platform) -> int:
    """Return how many pods run on every system node.

    Network plugin, kube-proxy, pod identity agent and the two storage drivers' node parts (AWS add-ons); the
    node exporter of the observability add-on, or the log and metrics agent.
    """
    return 5 + (platform.observability_addon or platform.scraping != "none")


def pods_of_cluster(platform: Platform) -> int:
    """Return how many pods run once per cluster on system nodes, replicas counted.

    CoreDNS 2, cert-manager 3, metrics-server 2, storage controllers 3, router 1 with a second one while it
    rolls, proof and benchmark job 2; the inference add-on 6 (two load balancer controllers, the operator, three
    of KEDA: awsome-distributed-ai PR 947), the observability add-on 3, External Secrets 3, collector 1.
    """
    pods = 2 + 3 + 2 + 3 + 2 + 2
    pods += 6 if platform.inference_operator is not None else 0
    pods += 3 if platform.observability_addon else 0
    pods += 3 if platform.external_secrets else 0
    pods += 1 if platform.scraping == "collector" else 0
    return pods
