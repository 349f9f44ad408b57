"""Names, labels, paths and ports that more than one Kubernetes object has to agree on.

Pure Python: rules and the engine configuration read them as well.
"""

from enum import StrEnum
from typing import Final

from hyperpod_dpd.spec import Deployment, Role

PART_OF: Final = "hyperpod-dpd"
"""`app.kubernetes.io/part-of` of everything that this project renders."""

NAME_LABEL: Final = "app.kubernetes.io/name"
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
PART_OF_LABEL: Final = "app.kubernetes.io/part-of"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
GENERATION_LABEL: Final = "hyperpod-dpd/generation"
"""Digest of everything that prefill and decode must have in common; a Service selects one generation only."""

WORKERS_LABEL: Final = "hyperpod-dpd/workers"
"""Tells several Deployments of one component apart, such as colocated workers on two instance groups."""

CONFIG_HASH_ANNOTATION: Final = "hyperpod-dpd/config-hash"
"""Digest of the ConfigMap that a pod mounts, so that a change of the text rolls the pods."""

NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""Label that Kubernetes itself puts on every namespace."""

INSTANCE_GROUP_LABEL: Final = "sagemaker.amazonaws.com/instance-group-name"
"""Label that HyperPod puts on the nodes of an instance group."""

WORKER_HTTP_PORT: Final = 8000
"""Port of vLLM's HTTP server in a worker."""

WORKER_HTTP_PORT_NAME: Final = "http"
"""Name of that port in pods, Services and EndpointSlices; the router looks it up by name."""

ROUTER_PORT: Final = 8081
"""Port of the router's OpenAI endpoint, in its pod and its Service."""

ROUTER_PORT_NAME: Final = "http"
"""Name of that port."""

NOTIFICATION_PORT: Final = 7500
"""Port on which the router receives one notification per rank when a KV cache has landed."""

CONFIG_DIRECTORY: Final = "/etc/dpd"
"""Where a pod finds the files of its ConfigMap, read-only."""

MODEL_DIRECTORY: Final = "/model"
"""Where a worker finds weights that do not come straight out of S3."""

STATE_DIRECTORY: Final = "/var/lib/dpd"
"""Writable directory of a worker that outlives its container, but not its pod."""

WORKER_SERVICE_ACCOUNT: Final = "worker"
"""ServiceAccount of every worker; EKS Pod Identity is associated with it."""

ROUTER_SERVICE_ACCOUNT: Final = "router"
"""ServiceAccount of the router."""

API_KEYS_KEY: Final = "keys"
"""Key, in the Secret with the router's bearer keys, of their lines: the file's name in the router's pod."""


class Component(StrEnum):
    """What a pod is: value of `app.kubernetes.io/component`."""

    PREFILL = "prefill"
    DECODE = "decode"
    COLOCATED = "colocated"
    ROUTER = "router"
    PROOF = "proof"
    BENCHMARK = "benchmark"
    COLLECTOR = "metrics-collector"
    DCGM_EXPORTER = "dcgm-exporter"
    EFA_EXPORTER = "efa-exporter"


PLATFORM_COMPONENTS: Final = frozenset({Component.COLLECTOR, Component.DCGM_EXPORTER, Component.EFA_EXPORTER})
"""Components that exist once per cluster and belong to none of its deployments."""

PLATFORM_INSTANCE: Final = "platform"
"""`app.kubernetes.io/instance` of those."""


def system_namespace(deployment: Deployment) -> str:
    """Namespace of the router and of jobs; Pod Security `restricted`."""
    return f"{deployment.name}-system"


def workers_namespace(deployment: Deployment) -> str:
    """Namespace of the GPU workers, held by an admission policy of its own."""
    return f"{deployment.name}-workers"


def worker_service(role: Role) -> str:
    """Name of the headless Service over the workers of `role`, in the workers' namespace."""
    return role.value


def router_service() -> str:
    """Name of the router's Service, in the system namespace."""
    return "router"


def router_host(deployment: Deployment) -> str:
    """DNS name under which every pod of the cluster reaches the router."""
    return f"{router_service()}.{system_namespace(deployment)}.svc.cluster.local"


def selector(deployment: Deployment, component: Component) -> dict[str, str]:
    """Labels that select the pods of `component`; they never change, because selectors cannot."""
    return {INSTANCE_LABEL: _instance(deployment, component), COMPONENT_LABEL: component.value}


def labels(deployment: Deployment, component: Component | None = None) -> dict[str, str]:
    """Labels of an object of `deployment`, of `component` when it belongs to one."""
    common = {
        INSTANCE_LABEL: _instance(deployment, component),
        PART_OF_LABEL: PART_OF,
        MANAGED_BY_LABEL: PART_OF,
    }
    if component is None:
        return common
    return {NAME_LABEL: _SOFTWARE.get(component, "vllm"), COMPONENT_LABEL: component.value, **common}


_SOFTWARE: Final = {
    Component.ROUTER: "dpd-router",
    Component.PROOF: "dpd-proof",
    Component.BENCHMARK: "genai-bench",
    Component.COLLECTOR: "opentelemetry-collector",
    Component.DCGM_EXPORTER: "dcgm-exporter",
    Component.EFA_EXPORTER: "efa-exporter",
}


def platform_labels() -> dict[str, str]:
    """Labels of an object that exists once per cluster and belongs to no component."""
    return {INSTANCE_LABEL: PLATFORM_INSTANCE, PART_OF_LABEL: PART_OF, MANAGED_BY_LABEL: PART_OF}


def _instance(deployment: Deployment, component: Component | None) -> str:
    return PLATFORM_INSTANCE if component in PLATFORM_COMPONENTS else deployment.name
