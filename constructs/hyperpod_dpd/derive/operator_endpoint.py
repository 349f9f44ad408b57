"""Names that the operator makes out of a deployment's."""

from typing import Final

from hyperpod_dpd.serving.names import workers_namespace
from hyperpod_dpd.spec import Deployment

RESOURCE_NAME: Final = "dpd"
"""Name of the InferenceEndpointConfig. Short, because the operator builds longer names from it; the namespace says
whose it is."""

OPERATOR_NAMESPACE: Final = "hyperpod-inference-system"
"""Namespace of the operator and of its routers."""

ROUTING_PORT: Final = 443
"""Port of the router's Service, documented without TLS (SageMaker developer guide, disaggregated prefill and decode, "Invoke
your endpoint": `ROUTER_URL=http://…-routing-service…:443`, called with `curl -k`, 2026-11-30). Proof and benchmark find out."""


def routing_service(deployment: Deployment) -> str:
    """Return the name of the Service of the operator's router, in the operator's namespace."""
    return f"{RESOURCE_NAME}-{workers_namespace(deployment)}-routing-service"


def routing_url(deployment: Deployment) -> str:
    """Return the address of the operator's router for pods of the cluster, without a path."""
    return f"http://{routing_service(deployment)}.{OPERATOR_NAMESPACE}.svc.cluster.local:{ROUTING_PORT}"


def endpoint_name(deployment: Deployment) -> str:
    """Return the name of the SageMaker endpoint."""
    return deployment.serving.operator.endpoint_name or deployment.name
