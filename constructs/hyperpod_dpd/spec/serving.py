"""How the model is served: backend, engine, transfer and the workers of each role."""

from typing import Annotated, Literal

import annotated_types as at

from hyperpod_dpd.spec.forms import EnvironmentName, Image, Version
from hyperpod_dpd.spec.hyperpod import Role
from hyperpod_dpd.spec.operator import OperatorEndpoint
from hyperpod_dpd.spec.value import Fraction, NonEmptyStr, NonNegativeInt, PositiveFloat, PositiveInt, value


@value
class Engine:
    """The software inside a worker: image and the versions in it, which decide names and keys."""

    name: NonEmptyStr | None = None
    """Catalog name of a tested triple; by default the one of the chosen backend."""

    image: Image | None = None
    """Image reference; by default the image that this project builds, or the catalog's for the operator."""

    vllm: Version | None = None
    """vLLM version in `image`, when it differs from the triple's."""

    lmcache: Version | None = None
    """LMCache version in `image`, when it differs from the triple's."""

    nixl: Version | None = None
    """NIXL version in `image`, when it differs from the triple's."""


@value
class Scaling:
    """Limits between which the workers of a role are scaled by load."""

    minimum: PositiveInt = 1
    """Fewest replicas."""

    maximum: PositiveInt
    """Most replicas; the instance group must hold them."""

    waiting_requests_per_replica: PositiveInt = 4
    """Queued requests per replica above which a replica is added."""

    kv_cache_usage: Fraction = 0.8
    """Share of the KV cache in use above which a replica is added."""

    stabilization_seconds: Annotated[int, at.Ge(1), at.Le(3600)] = 600
    """Time that load must stay low before a replica is drained; Kubernetes takes up to an hour."""

    scale_up_stabilization_seconds: Annotated[int, at.Ge(0), at.Le(3600)] = 60
    """Time that load must stay high before a replica is added: a burst is over before weights are loaded."""


@value
class Worker:
    """The workers of one role."""

    instance_group: NonEmptyStr | None = None
    """Instance group they run on; by default the only group of their role."""

    replicas: NonNegativeInt = 1
    """Number of workers."""

    gpus: PositiveInt | None = None
    """GPUs per worker; by default `tensor_parallel`."""

    gpu_memory_utilization: Fraction | None = None
    """Share of HBM for vLLM. The PD buffer lies outside it. By default what physics leaves, at most 0.90."""

    max_num_seqs: PositiveInt | None = None
    """Most sequences in one step."""

    max_num_batched_tokens: PositiveInt | None = None
    """Token budget of one step."""

    enforce_eager: bool | None = None
    """Run without CUDA graphs; by default only on prefill, where graphs bring nothing."""

    prefix_caching: bool | None = None
    """vLLM's prefix cache. On a decoder the router's hand-off strategy decides it."""

    environment: dict[EnvironmentName, str] | None = None
    """Further environment variables of this role."""

    extra_args: tuple[NonEmptyStr, ...] = ()
    """Further vLLM arguments of this role. An argument that this project computes is refused here."""

    scaling: Scaling | None = None
    """Autoscaling of this role; absent: fixed replicas."""


@value
class RatioLimits:
    """How many prefillers one decoder may have while both roles are scaled."""

    minimum: PositiveFloat = 1.0
    """Fewest prefillers per decoder; the default is where AWS starts."""

    maximum: PositiveFloat = 3.0
    """Most prefillers per decoder; the default is the highest that AWS recommends."""


@value
class Transfer:
    """How the KV cache gets from prefill to decode."""

    type: Literal["lmcache-pd", "nixl"] = "lmcache-pd"
    """`lmcache-pd`: LMCache pushes chunks into the decoder's buffer. `nixl`: the decoder pulls blocks."""

    backend: Literal["LIBFABRIC", "UCX"] = "LIBFABRIC"
    """NIXL's network backend. Over EFA only LIBFABRIC is fast; UCX falls back to TCP without a word."""

    pd_buffer_gib: PositiveFloat = 8.0
    """PD buffer per tensor-parallel rank in GiB, outside vLLM's share. Rounded down to whole chunks."""

    decode_pd_buffer_gib: PositiveFloat | None = None
    """PD buffer of the decoder when it differs."""

    chunk_tokens: PositiveInt = 256
    """Tokens per LMCache chunk, equal on both roles."""

    init_port_base: PositiveInt = 7300
    """First port of the decoder's init sockets, one per tensor-parallel rank and epoch."""

    alloc_port_base: PositiveInt = 7400
    """First port of the decoder's allocation sockets, one per tensor-parallel rank and epoch."""

    port_epochs: PositiveInt = 8
    """Port ranges that a decoder walks through as it restarts, so that no prefiller talks to a dead peer."""

    allocation_timeout_seconds: PositiveFloat = 10.0
    """How long the sender waits for buffer room. LMCache's own default is for ever."""

    hash_seed: Annotated[int, at.Ge(0)] = 0
    """PYTHONHASHSEED, equal on both roles; a difference makes every lookup miss."""

    block_size_tokens: PositiveInt | None = None
    """vLLM's KV block size; by default vLLM's own."""


@value
class Baseline:
    """The colocated comparison on the same number of GPUs."""

    gpu_memory_utilization: Fraction = 0.9
    """Share of HBM for vLLM."""

    max_num_seqs: PositiveInt | None = None
    """Most sequences in one step; by default vLLM's own, not an artificial cap."""

    tuned_max_num_batched_tokens: PositiveInt = 512
    """Token budget of the tuned variant, which keeps decode steps short."""


@value
class Security:
    """The privilege that a worker gets for registering memory with EFA."""

    workers: Literal["ipc-lock", "privileged"] = "ipc-lock"
    """`ipc-lock`: the one capability. `privileged`: escape hatch, a warning that must be acknowledged."""


@value
class Serving:
    """Workers and how they hand off."""

    backend: Literal["self-managed", "operator"] = "self-managed"
    """`operator`: one InferenceEndpointConfig, AWS's supported path. `self-managed`: our own workers and router."""

    engine: Engine = Engine()
    """Software of the workers."""

    tensor_parallel: PositiveInt = 8
    """GPUs that share one model replica, equal on both roles."""

    max_model_len_tokens: PositiveInt = 16384
    """Longest sequence (prompt and answer) in tokens."""

    longest_generation_seconds: PositiveInt = 600
    """Longest answer that a rolling update, a drain or an idle timeout must not cut."""

    transfer: Transfer = Transfer()
    """Hand-off of the KV cache."""

    prefill: Worker = Worker()
    """Prefill workers."""

    decode: Worker = Worker()
    """Decode workers."""

    baseline: Baseline = Baseline()
    """Colocated comparison."""

    huge_pages_mib: NonNegativeInt = 0
    """2 MiB huge pages per worker in MiB; 0 keeps EFA off huge pages, which is safe on every image."""

    shared_memory_gib: PositiveInt = 80
    """Size of /dev/shm in GiB; counts against the worker's memory."""

    security: Security = Security()
    """Privilege of the workers."""

    prefillers_per_decoder: RatioLimits = RatioLimits()
    """Limits that autoscaling must not be able to leave."""

    instance_cache: bool = True
    """KV cache in host memory (L1) on the operator backend."""

    operator: OperatorEndpoint = OperatorEndpoint()
    """Endpoint of the operator backend."""

    def worker(self, role: Role) -> Worker:
        """Return the workers of `role`.

        Raises:
            KeyError: `role` is neither prefill nor decode.
        """
        return {Role.PREFILL: self.prefill, Role.DECODE: self.decode}[role]
