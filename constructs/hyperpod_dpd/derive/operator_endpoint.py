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
"""Port of the router's Service."""


def routing_service(deployment: Deployment) -> str:
    """Return the name of the Service of the operator's router, in the operator's namespace."""
    return f"{RESOURCE_NAME}-{workers_namespace(deployment)}-routing-service"


def endpoint_name(deployment: Deployment) -> str:
    """Return the name of the SageMaker endpoint."""
    return deployment.serving.operator.endpoint_name or deployment.name
