"""What the platform sets in the charts that it installs; `catalog/cluster_charts.py` lists the names.

Two things are set for the first deployment of all. Webhooks that would refuse or change other people's objects are off:
until their pods answer, every release after them would fail with a refused connection. And pods go to the system nodes,
which are there before the first GPU node.
"""

from typing import Any

from hyperpod_dpd.catalog.cluster_charts import EXTERNAL_SECRETS, KEDA, LOAD_BALANCER_CONTROLLER
from hyperpod_dpd.cluster.system_nodes import SYSTEM_NODE_LABELS
from hyperpod_dpd.derive.mirror import in_account
from hyperpod_dpd.spec import Deployment

Values = dict[str, Any]


def external_secrets_values(deployment: Deployment, *, registry: str) -> Values:
    """Return the values of External Secrets: one controller that reads SecretStores of its namespaces, and no more.

    Args:
        deployment: says whether images are mirrored.
        registry: the account's registry.
    """
    (image,) = EXTERNAL_SECRETS.images
    return {
        "installCRDs": True,
        "image": _image(image, deployment, registry),
        "serviceAccount": {"name": EXTERNAL_SECRETS.service_account},
        "nodeSelector": dict(SYSTEM_NODE_LABELS),
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "webhook": {"create": False},
        "certController": {"create": False},
        # kinds that reach into every namespace, or write secrets back
        "processClusterExternalSecret": False,
        "processClusterGenerator": False,
        "processClusterPushSecret": False,
        "processClusterStore": False,
        "processPushSecret": False,
    }


def keda_values(deployment: Deployment, *, cluster_name: str, registry: str) -> Values:
    """Return the values of KEDA where the inference add-on does not bring it.

    Args:
        deployment: says whether images are mirrored.
        cluster_name: name of the EKS cluster, which KEDA puts on what it makes.
        registry: the account's registry.
    """
    parts = ("keda", "metricsApiServer", "webhooks")
    images: Values = {}
    for part, reference in zip(parts, KEDA.images, strict=True):
        image = _image(reference, deployment, registry)
        host, _, path = image["repository"].partition("/")
        images[part] = {"registry": host, "repository": path, "tag": image["tag"]}
    return {
        "clusterName": cluster_name,
        # tags do not move in the account's registry, and KEDA's are releases
        "image": {**images, "pullPolicy": "IfNotPresent"},
        "serviceAccount": {"operator": {"name": KEDA.service_account}},
        "nodeSelector": dict(SYSTEM_NODE_LABELS),
    }


def load_balancer_controller_values(
    deployment: Deployment, *, cluster_name: str, vpc_id: str, registry: str
) -> Values:
    """Return the values of the AWS Load Balancer Controller where the inference add-on does not bring it.

    Args:
        deployment: says whether images are mirrored.
        cluster_name: name of the EKS cluster, by which the controller knows its own load balancers.
        vpc_id: VPC of the cluster: pods that may not ask the node's metadata service cannot find it.
        registry: the account's registry.
    """
    (image,) = LOAD_BALANCER_CONTROLLER.images
    return {
        "clusterName": cluster_name,
        "region": deployment.region,
        "vpcId": vpc_id,
        "image": _image(image, deployment, registry),
        "serviceAccount": {"name": LOAD_BALANCER_CONTROLLER.service_account},
        "nodeSelector": dict(SYSTEM_NODE_LABELS),
        # it changes every Service that is made, also those that ask for no load balancer
        "enableServiceMutatorWebhook": False,
    }


def _image(reference: str, deployment: Deployment, registry: str) -> dict[str, str]:
    repository, _, tag = in_account(reference, deployment, registry=registry).rpartition(":")
    return {"repository": repository, "tag": tag}
