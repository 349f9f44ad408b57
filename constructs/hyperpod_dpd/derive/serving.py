"""Everything about serving that follows from a deployment, computed in this one place."""

from collections.abc import Callable
from typing import TypeVar

from hyperpod_dpd.catalog.instances import InstanceType, instance_type
from hyperpod_dpd.catalog.models import ModelGeometry
from hyperpod_dpd.catalog.operator import REFERENCE
from hyperpod_dpd.catalog.row import UnknownCatalogEntryError
from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.derive.engine import EffectiveEngine, effective_engine
from hyperpod_dpd.derive.geometry import UnreadableModelError, geometry_of
from hyperpod_dpd.derive.obstacle import Obstacle, UnresolvedError
from hyperpod_dpd.derive.ports import DecodePorts, decode_ports
from hyperpod_dpd.physics import (
    GIB,
    MemoryFit,
    PdBuffer,
    UnshardableError,
    chunk_bytes_per_rank,
    default_gpu_memory_utilization,
    efa_devices,
    kv_bytes_per_token_per_rank,
    line_rate_bytes_per_second,
    memory_fit,
    refuse_unless_shardable,
    weights_bytes_per_rank,
)
from hyperpod_dpd.spec import Deployment, InstanceGroup, Role, Worker
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import record


@record
class RoleFacts:
    """One role: where its workers run and what they are given."""

    role: Role
    worker: Worker
    group: InstanceGroup
    instance: InstanceType
    replicas: int

    gpus: int
    """GPUs of one worker."""

    efa_devices: int
    """EFA devices of one worker."""

    gpu_memory_utilization: float
    max_num_seqs: int
    max_num_batched_tokens: int
    enforce_eager: bool
    prefix_caching: bool

    pd_buffer: PdBuffer
    """PD buffer of one rank."""

    memory: MemoryFit
    """Memory of one GPU."""

    colocated_memory: MemoryFit
    """Memory of one GPU of the colocated worker that takes its place in the baseline."""

    @property
    def workers_per_node(self) -> int:
        """Workers that one node holds."""
        return self.instance.gpus // self.gpus

    @property
    def nodes(self) -> int:
        """Nodes that the replicas take."""
        return -(-self.replicas // self.workers_per_node)

    @property
    def whole_node(self) -> bool:
        """Whether a worker owns its node."""
        return self.gpus == self.instance.gpus


@record
class ServingFacts:
    """What follows from a deployment about serving. Values that both roles share exist once."""

    geometry: ModelGeometry
    engine: EffectiveEngine
    tensor_parallel: int
    max_model_len_tokens: int

    weights_bytes_per_rank: int
    kv_bytes_per_token_per_rank: int

    chunk_tokens: int
    chunk_bytes_per_rank: int
    block_size_tokens: int
    hash_seed: int
    decode_ports: DecodePorts

    line_rate_bytes_per_second: float
    """Line rate between one GPU of a prefiller and one of a decoder."""

    prefill: RoleFacts
    decode: RoleFacts

    def role(self, role: Role) -> RoleFacts:
        """Return the facts of `role`.

        Raises:
            KeyError: `role` is neither prefill nor decode.
        """
        return {Role.PREFILL: self.prefill, Role.DECODE: self.decode}[role]


@checked
def resolve(deployment: Deployment) -> ServingFacts:
    """Return what follows from `deployment` about serving.

    Raises:
        UnresolvedError: with every obstacle at once: unknown model, instance type or engine, a role without exactly
            one instance group, more GPUs than a node has, a model that does not divide over the ranks.
    """
    return _Resolution(deployment).facts()


def resolve_or_none(deployment: Deployment) -> ServingFacts | None:
    """Return `resolve(deployment)`, or None where something cannot be derived.

    For rules about derived numbers: the one rule about unresolvable deployments has already said what is wrong.
    """
    try:
        return resolve(deployment)
    except UnresolvedError:
        return None


_T = TypeVar("_T")


class _Resolution:
    """Collects every obstacle before it gives up."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._obstacles: list[Obstacle] = []

    def facts(self) -> ServingFacts:
        serving = self._deployment.serving
        geometry = self._attempt(self._geometry)
        engine = self._attempt(self._engine)
        prefill = self._attempt(lambda: self._place(Role.PREFILL))
        decode = self._attempt(lambda: self._place(Role.DECODE))
        if geometry is None or engine is None or prefill is None or decode is None:
            raise UnresolvedError(self._obstacles)
        precision = self._deployment.model.kv_cache
        transfer = serving.transfer
        roles = _Roles(self._deployment, geometry)
        return ServingFacts(
            geometry=geometry,
            engine=engine,
            tensor_parallel=serving.tensor_parallel,
            max_model_len_tokens=serving.max_model_len_tokens,
            weights_bytes_per_rank=roles.weights_bytes,
            kv_bytes_per_token_per_rank=roles.kv_bytes_per_token,
            chunk_tokens=transfer.chunk_tokens,
            chunk_bytes_per_rank=chunk_bytes_per_rank(
                geometry, precision, serving.tensor_parallel, transfer.chunk_tokens
            ),
            block_size_tokens=transfer.block_size_tokens or VLLM_DEFAULTS.block_size_tokens,
            hash_seed=transfer.hash_seed,
            decode_ports=decode_ports(serving),
            line_rate_bytes_per_second=line_rate_bytes_per_second(prefill.instance, decode.instance),
            prefill=roles.facts(Role.PREFILL, prefill),
            decode=roles.facts(Role.DECODE, decode),
        )

    def _attempt(self, step: Callable[[], _T]) -> _T | None:
        try:
            return step()
        except UnresolvedError as error:
            self._obstacles += [found for found in error.obstacles if found not in self._obstacles]
            return None

    def _geometry(self) -> ModelGeometry:
        model = self._deployment.model
        tensor_parallel = self._deployment.serving.tensor_parallel
        try:
            geometry = geometry_of(model)
            refuse_unless_shardable(geometry, tensor_parallel)
        except UnreadableModelError as error:
            raise _unresolved(f"model.{error.field}", error.says, error.given, error.fix) from None
        except UnshardableError as error:
            raise _unresolved(
                "serving.tensor_parallel",
                f"`{error.geometry.name}` cannot be divided over the ranks: {error.reason}",
                f"`tensor_parallel: {tensor_parallel}`",
                str(error).partition("help: ")[2],
            ) from None
        return geometry

    def _engine(self) -> EffectiveEngine:
        try:
            return effective_engine(self._deployment.serving)
        except UnknownCatalogEntryError as error:
            known = ", ".join(f"`{name}`" for name in error.known)
            raise _unresolved(
                "serving.engine.name", "unknown engine", f"`name: {error.name}`", f"name one of {known}"
            ) from None
        except ValueError as error:
            raise _unresolved(
                "serving.engine",
                "a version is not numbers separated by dots",
                str(error),
                "write versions like `0.25.1`",
            ) from None

    def _place(self, role: Role) -> "_Place":
        group = self._group(role)
        index = self._deployment.hyperpod.instance_groups.index(group)
        try:
            instance = instance_type(group.instance_type)
        except UnknownCatalogEntryError as error:
            known = ", ".join(f"`{name}`" for name in error.known)
            raise _unresolved(
                f"hyperpod.instance_groups[{index}].instance_type",
                "disaggregated serving over EFA is not supported on this instance type",
                f"`instance_type: {error.name}`",
                f"use one of {known}",
            ) from None
        gpus = self._deployment.serving.worker(role).gpus or self._deployment.serving.tensor_parallel
        if gpus > instance.gpus:
            raise _unresolved(
                f"serving.{role.value}.gpus",
                f"a {role.value} worker needs more GPUs than a node has",
                f"{gpus} GPUs on `{instance.name}`, which has {instance.gpus}",
                f"set `serving.tensor_parallel` to at most {instance.gpus}",
            )
        return _Place(group=group, instance=instance, gpus=gpus)

    def _group(self, role: Role) -> InstanceGroup:
        named = self._deployment.serving.worker(role).instance_group
        groups = self._deployment.hyperpod.instance_groups
        if named is not None:
            chosen = [group for group in groups if group.name == named]
            listed = ", ".join(f"`{group.name}`" for group in groups)
            path, given, fix = (
                f"serving.{role.value}.instance_group",
                f"`instance_group: {named}`",
                f"name one of {listed}",
            )
        else:
            chosen = list(self._deployment.groups(role))
            path, given = "hyperpod.instance_groups", f"{len(chosen)} groups with `role: {role.value}`"
            fix = (
                f"name one in `serving.{role.value}.instance_group`"
                if chosen
                else f"give one group `role: {role.value}`"
            )
        if len(chosen) != 1:
            raise _unresolved(path, f"no single instance group for {role.value} workers", given, fix)
        return chosen[0]


@record
class _Place:
    group: InstanceGroup
    instance: InstanceType
    gpus: int


class _Roles:
    """Facts of both roles for one model."""

    def __init__(self, deployment: Deployment, geometry: ModelGeometry) -> None:
        self._deployment = deployment
        self._serving = deployment.serving
        ranks = self._serving.tensor_parallel
        self.weights_bytes = weights_bytes_per_rank(geometry, deployment.model.weights, ranks)
        self.kv_bytes_per_token = kv_bytes_per_token_per_rank(geometry, deployment.model.kv_cache, ranks)

    def facts(self, role: Role, place: _Place) -> RoleFacts:
        worker = self._serving.worker(role)
        buffer = self._buffer(role)
        utilization = worker.gpu_memory_utilization or self._default_utilization(place, buffer)
        return RoleFacts(
            role=role,
            worker=worker,
            group=place.group,
            instance=place.instance,
            replicas=worker.replicas,
            gpus=place.gpus,
            efa_devices=efa_devices(place.instance, place.gpus),
            gpu_memory_utilization=utilization,
            max_num_seqs=worker.max_num_seqs or VLLM_DEFAULTS.max_num_seqs,
            max_num_batched_tokens=worker.max_num_batched_tokens or VLLM_DEFAULTS.max_num_batched_tokens,
            enforce_eager=_or_default(worker.enforce_eager, default=role is Role.PREFILL),
            prefix_caching=_or_default(worker.prefix_caching, default=self._caches_prefixes(role)),
            pd_buffer=buffer,
            memory=self._memory(place, utilization, buffer.usable_bytes),
            colocated_memory=self._memory(place, self._serving.baseline.gpu_memory_utilization, 0),
        )

    def _memory(self, place: _Place, utilization: float, buffer_bytes: int) -> MemoryFit:
        return memory_fit(
            place.instance.gpu,
            weights_bytes=self.weights_bytes,
            kv_bytes_per_token=self.kv_bytes_per_token,
            sequence_tokens=self._serving.max_model_len_tokens,
            tensor_parallel=self._serving.tensor_parallel,
            gpu_memory_utilization=utilization,
            pd_buffer_bytes=buffer_bytes,
        )

    def _default_utilization(self, place: _Place, buffer: PdBuffer) -> float:
        physical = default_gpu_memory_utilization(place.instance.gpu, buffer.usable_bytes)
        if self._serving.backend == "operator":
            # what else the operator's image puts beside vLLM is not public: stay where AWS has measured
            return min(physical, REFERENCE.gpu_memory_utilization)
        return physical

    def _buffer(self, role: Role) -> PdBuffer:
        transfer = self._serving.transfer
        size_gib = transfer.pd_buffer_gib
        if role is Role.DECODE and transfer.decode_pd_buffer_gib is not None:
            size_gib = transfer.decode_pd_buffer_gib
        # with NixlConnector the decoder pulls blocks out of vLLM's own KV cache: there is no buffer
        requested = round(size_gib * GIB) if transfer.type == "lmcache-pd" else 0
        return PdBuffer(
            requested_bytes=requested,
            chunk_tokens=transfer.chunk_tokens,
            chunk_bytes=transfer.chunk_tokens * self.kv_bytes_per_token,
        )

    def _caches_prefixes(self, role: Role) -> bool:
        """A prefix-cache hit on an LMCache PD worker leaks chunks, except where the hand-off lands in the cache."""
        if self._serving.transfer.type == "nixl":
            return True
        return role is Role.DECODE and self._deployment.routing.strategy == "land"


def _or_default(given: bool | None, *, default: bool) -> bool:  # noqa: FBT001
    return default if given is None else given


def _unresolved(path: str, says: str, given: str, fix: str) -> UnresolvedError:
    return UnresolvedError([Obstacle(path=path, says=says, given=given, fix=fix)])
