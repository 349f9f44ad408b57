"""What a set of manifests says about disaggregated serving."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hyperpod_dpd.catalog.calibration import MEMORY
from hyperpod_dpd.catalog.instances import InstanceType
from hyperpod_dpd.catalog.models import ModelGeometry
from hyperpod_dpd.lint.command import Arguments
from hyperpod_dpd.lint.image import EngineVersions
from hyperpod_dpd.lint.node import Node, whole_number
from hyperpod_dpd.physics import PdBuffer, UnshardableError, chunk_bytes_per_rank, refuse_unless_shardable
from hyperpod_dpd.physics.precision import Precision
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Role
from hyperpod_dpd.spec.value import record

LMCACHE_CONNECTOR: Final = "LMCacheConnectorV1"
NIXL_CONNECTORS: Final = frozenset({"NixlConnector", "NixlPullConnector", "NixlPushConnector"})
_MOST_EPOCHS: Final = 10_000
"""More ranges than there are ports of four digits."""

DEFAULT_CHUNK_TOKENS: Final = 256
"""LMCache's `chunk_size` when the configuration names none."""


@record
class Fault:
    """A problem and the place where it is written."""

    problem: Problem
    file: str
    line: int


def fault(
    node: Node,
    *,
    says: str,
    given: str,
    fix: str,
    computed: str = "",
    limit: str = "",
    path: str | None = None,
) -> Fault:
    """Return a fault at `node`."""
    return Fault(
        problem=Problem(
            path=node.path if path is None else path,
            says=says,
            given=given,
            fix=fix,
            computed=computed,
            limit=limit,
        ),
        file=node.file,
        line=node.line,
    )


@record
class Note:
    """Something that was assumed or could not be compared; no finding."""

    file: str
    line: int
    path: str
    """Where in the document."""
    says: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: note: {self.says}"


def note(node: Node, says: str) -> Note:
    """Return a note at `node`."""
    return Note(file=node.file, line=node.line, path=node.path, says=says)


@record
class KubernetesObject:
    """One Kubernetes object."""

    kind: str
    api_version: str
    name: str
    namespace: str
    """`default` where it names none."""

    node: Node

    @property
    def title(self) -> str:
        """Kind and name, for a message."""
        return f"{self.kind} `{self.namespace}/{self.name}`"

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the object."""
        return labels_of(self.node.get("metadata", "labels"))


def labels_of(node: Node | None) -> Mapping[str, str]:
    """Return a mapping of labels as text."""
    pairs = {} if node is None else node.pairs
    return {key: value.text or "" for key, value in pairs.items()}


@record
class Variable:
    """An environment variable of a container."""

    name: str
    value: str | None
    """None where it comes from a field, a secret, or something that is not in the set."""

    field: str | None
    """Field of the pod such as `status.podIP`."""

    node: Node


@record
class Container:
    """A container of a pod."""

    name: str
    node: Node
    environment: Mapping[str, Variable]
    arguments: Arguments
    program: str
    """`vllm`, the kind of a router, or the first word of what it runs."""


@record
class Pod:
    """A pod as a workload makes it."""

    owner: KubernetesObject
    node: Node
    """The pod's `spec`."""

    labels: Mapping[str, str]
    replicas: int
    containers: tuple[Container, ...]

    @property
    def namespace(self) -> str:
        """Namespace that it runs in."""
        return self.owner.namespace


@record
class Worker:
    """An engine of one role."""

    role: Role
    owner: KubernetesObject
    pod: Pod | None
    """None where the operator makes the pod."""

    container: Container | None
    node: Node
    """The container, or the role's part of an `InferenceEndpointConfig`."""

    arguments: Arguments
    transfer: Node | None
    """Value of `--kv-transfer-config`."""

    lmcache: Mapping[str, Node]
    """LMCache's configuration by key: its file, and the environment that wins over it."""

    lmcache_known: bool
    """False where LMCache's file was not found, so that an absent key says nothing."""

    environment: Mapping[str, Variable]
    engine: EngineVersions
    image: Node | None
    instance: InstanceType | None
    geometry: ModelGeometry | None
    resources: Node | None
    replicas: int

    @property
    def operator(self) -> bool:
        """Whether the HyperPod inference operator makes its pods."""
        return self.pod is None

    @property
    def connector(self) -> str | None:
        """KV connector; the operator configures LMCache's."""
        if self.operator:
            return LMCACHE_CONNECTOR
        return None if self.transfer is None else self.transfer.text_at("kv_connector")

    @property
    def through_lmcache(self) -> bool:
        """Whether it hands over through LMCache's PD buffer."""
        return self.connector == LMCACHE_CONNECTOR

    @property
    def through_nixl(self) -> bool:
        """Whether vLLM's own NIXL connector moves the cache."""
        return self.connector in NIXL_CONNECTORS

    @property
    def extra(self) -> Node | None:
        """`kv_connector_extra_config` of the connector."""
        return None if self.transfer is None else self.transfer.get("kv_connector_extra_config")

    @property
    def tensor_parallel(self) -> int | None:
        """Ranks; None where the number cannot be read."""
        given = self.arguments.last("--tensor-parallel-size")
        return 1 if given is None else self.arguments.number("--tensor-parallel-size")

    @property
    def max_model_len_tokens(self) -> int | None:
        """Longest sequence; the model's own limit where no argument says it."""
        if self.arguments.last("--max-model-len") is not None:
            return self.arguments.number("--max-model-len")
        return None if self.geometry is None else self.geometry.max_position_tokens

    @property
    def gpu_memory_utilization(self) -> float | None:
        """Share of the GPU for vLLM; what is usual where no argument says it, None where it is no share."""
        given = self.arguments.last("--gpu-memory-utilization")
        if given is None:
            return MEMORY.usual_utilization
        try:
            share = float(given.value.text) if given.value is not None else 0.0
        except ValueError:
            return None
        return share if 0 < share <= 1 else None

    @property
    def kv_cache(self) -> Precision:
        """Precision of the KV cache."""
        return "fp8" if (self.arguments.value("--kv-cache-dtype") or "").startswith("fp8") else "bf16"

    @property
    def weights(self) -> Precision:
        """Precision of the weights, by what the arguments call them."""
        named = [self.arguments.value("--quantization"), self.arguments.value("--model")]
        words = [*(word for word in named if word), *(token.text for token in self.arguments.positional)]
        return "fp8" if any("fp8" in word.lower() for word in words) else "bf16"

    @property
    def http_port(self) -> int:
        """Port of vLLM's server."""
        return self.arguments.number("--port") or 8000

    @property
    def chunk_tokens(self) -> int:
        """LMCache's chunk size."""
        given = self.lmcache.get("chunk_size")
        tokens = given.number if given is not None else None
        return tokens if tokens is not None and tokens > 0 else DEFAULT_CHUNK_TOKENS

    @property
    def prefix_caching(self) -> bool:
        """Whether vLLM keeps prefixes; it does unless an argument says otherwise."""
        given = self.arguments.switched("enable-prefix-caching")
        return given is None or not given.flag.startswith("--no-")

    @property
    def buffer(self) -> PdBuffer | None:
        """PD buffer of one rank; None where its size or the model is not known."""
        size = self.lmcache.get("pd_buffer_size")
        ranks = self.tensor_parallel
        if size is None or size.number is None or self.geometry is None or not ranks:
            return None
        try:
            refuse_unless_shardable(self.geometry, ranks)
        except UnshardableError:
            return None
        chunk_bytes = chunk_bytes_per_rank(self.geometry, self.kv_cache, ranks, self.chunk_tokens)
        return PdBuffer(requested_bytes=size.number, chunk_tokens=self.chunk_tokens, chunk_bytes=chunk_bytes)

    @property
    def port_epochs(self) -> int:
        """Ranges of ports through which this project's launcher moves; 1 for every other decoder."""
        given = self.environment.get("DPD_PORT_EPOCHS")
        epochs = whole_number(given.value) if given is not None else None
        return epochs if epochs is not None and 0 < epochs <= _MOST_EPOCHS else 1

    def ports(self, key: str) -> tuple[int, ...] | None:
        """Return the ports that LMCache's `key` names; None where it is absent or not readable."""
        node = self.lmcache.get(key)
        if node is None:
            return None
        entries = node.items or (node,)
        numbers = [entry.number for entry in entries]
        if len(entries) == 1 and numbers == [None]:
            numbers = [whole_number(part) for part in (node.text or "").split(",")]
        return None if None in numbers else tuple(number for number in numbers if number is not None)

    def at(self, key: str) -> Node:
        """Return where LMCache's `key` is written, or the worker where it is not."""
        return self.lmcache.get(key, self.node)

    def argument_at(self, *flags: str) -> Node:
        """Return where one of `flags` is written, or the worker where none is."""
        found = self.arguments.last(*flags)
        return self.node if found is None else found.node

    def variable_at(self, name: str) -> Node:
        """Return where the variable `name` is written, or the worker where it is not."""
        found = self.environment.get(name)
        return self.node if found is None else found.node

    def quantity(self, kind: str, resource: str) -> Node | None:
        """Return `resource` of `requests` or `limits`."""
        return None if self.resources is None else self.resources.get(kind, resource)

    def devices(self, resource: str) -> int:
        """Return how many devices called `resource` it gets."""
        found = self.quantity("limits", resource) or self.quantity("requests", resource)
        return (found.number if found is not None else None) or 0

    @property
    def gpus(self) -> int:
        """GPUs of one pod."""
        return self.devices(GPU)

    @property
    def efa_devices(self) -> int:
        """EFA devices of one pod."""
        return self.devices(EFA)

    def __str__(self) -> str:
        return f"{self.role.value} worker `{self.owner.name}`"


GPU: Final = "nvidia.com/gpu"
EFA: Final = "vpc.amazonaws.com/efa"


@record
class Router:
    """What clients talk to."""

    kind: str
    """`dpd-router`, `lmcache-proxy`, `vllm-router`, `production-stack`, `llm-d-sidecar` or `dynamo`."""

    owner: KubernetesObject
    pod: Pod
    container: Container
    arguments: Arguments
    node: Node

    @property
    def owns_notifications(self) -> bool:
        """Whether it binds the socket on which prefillers notify it."""
        return self.kind in {"dpd-router", "lmcache-proxy"}

    @property
    def notification_port(self) -> int | None:
        """Port of that socket."""
        if self.kind == "dpd-router":
            return self.arguments.number("--notification-port") or 7500
        return self.arguments.number("--proxy-port") or 8500 if self.kind == "lmcache-proxy" else None

    @property
    def http_port(self) -> int:
        """Port on which clients ask."""
        default = 8081 if self.kind == "dpd-router" else 8000
        return self.arguments.number("--port") or default

    @property
    def strategy(self) -> str:
        """How a hand-off continues at the decoder; every public proxy continues with the first token."""
        return self.arguments.value("--strategy") or "continue"

    def __str__(self) -> str:
        return f"router `{self.owner.name}`"


@record
class Endpoint:
    """Workers that serve one model together, with the routers in front of them."""

    name: str
    workers: tuple[Worker, ...]
    routers: tuple[Router, ...]

    def of(self, role: Role) -> tuple[Worker, ...]:
        """Return the workers of `role`."""
        return tuple(worker for worker in self.workers if worker.role is role)

    @property
    def prefill(self) -> tuple[Worker, ...]:
        """Prefill workers."""
        return self.of(Role.PREFILL)

    @property
    def decode(self) -> tuple[Worker, ...]:
        """Decode workers."""
        return self.of(Role.DECODE)

    @property
    def disaggregated(self) -> bool:
        """Whether anything is handed over."""
        return bool(self.prefill or self.decode)

    @property
    def pairs(self) -> Iterator[tuple[Worker, Worker]]:
        """Every prefill worker with every decode worker."""
        return ((prefill, decode) for prefill in self.prefill for decode in self.decode)


@record
class ManifestSet:
    """Everything that was recognised in the manifests of one run."""

    objects: tuple[KubernetesObject, ...]
    pods: tuple[Pod, ...]
    endpoints: tuple[Endpoint, ...]
    routers: tuple[Router, ...]
    operator_endpoints: tuple[KubernetesObject, ...]
    """`InferenceEndpointConfig` objects."""

    unknown: tuple[Fault, ...]
    """What was not understood: documents, kinds, programs."""

    unresolved: tuple[Fault, ...]
    """References that lead out of the set."""

    broken: tuple[Fault, ...]
    """Configuration files inside ConfigMaps that are no YAML."""

    notes: tuple[Note, ...]

    @property
    def workers(self) -> Iterator[Worker]:
        """Every worker of every endpoint."""
        return (worker for endpoint in self.endpoints for worker in endpoint.workers)

    @property
    def handing_over(self) -> Iterator[Worker]:
        """Prefill and decode workers."""
        return (worker for worker in self.workers if worker.role is not Role.COLOCATED)

    def of_kind(self, *kinds: str) -> Iterator[KubernetesObject]:
        """Yield the objects of `kinds`."""
        return (each for each in self.objects if each.kind in kinds)


def listed(values: Sequence[object]) -> str:
    """Return `values` in backquotes, separated by commas."""
    return ", ".join(f"`{value}`" for value in values)
