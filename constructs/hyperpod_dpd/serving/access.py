"""How to reach a deployment that runs: addresses and commands, for outputs and messages."""

from hyperpod_dpd.derive.operator_endpoint import (
    OPERATOR_NAMESPACE,
    ROUTING_PORT,
    routing_service,
    routing_url,
)
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.spec import Deployment


def in_cluster_url(deployment: Deployment, profile: Profile) -> str:
    """Return the base URL of the OpenAI API for pods of the cluster."""
    if profile.backend == "operator":
        return f"{routing_url(deployment)}/v1"
    return f"http://{names.router_host(deployment)}:{names.ROUTER_PORT}/v1"


def kubeconfig_command(deployment: Deployment) -> str:
    """Return the command after which kubectl knows the cluster of `deployment`."""
    existing = deployment.cluster.existing
    name = existing.eks_name if existing else deployment.name
    return f"aws eks update-kubeconfig --region {deployment.region} --name {name}"


def forward_command(deployment: Deployment, profile: Profile) -> str:
    """Return the command after which the endpoint answers at `http://127.0.0.1:8081/v1` of the machine that runs it."""
    if profile.backend == "operator":
        service, namespace, port = routing_service(deployment), OPERATOR_NAMESPACE, ROUTING_PORT
    else:
        service = names.router_service()
        namespace, port = names.system_namespace(deployment), names.ROUTER_PORT
    return f"kubectl --namespace {namespace} port-forward service/{service} {names.ROUTER_PORT}:{port}"


def try_command() -> str:
    """Return a request to the forwarded port that needs no prompt."""
    return f"curl --silent --show-error http://127.0.0.1:{names.ROUTER_PORT}/v1/models"
