"""How long one engine step takes: a roofline over weights, multiplications and cache, plus constants."""

from dataclasses import dataclass, field
from typing import Protocol

from hyperpod_dpd.catalog.calibration import (
    HAND_OFF,
    MEASURED,
    TRANSFER,
    HandOffCalibration,
    StepCalibration,
    TransferCalibration,
)
from hyperpod_dpd.catalog.instances import Gpu
from hyperpod_dpd.catalog.models import ModelGeometry
from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.physics import kv_bytes_per_token_per_rank, parameters_per_rank, transfer_seconds
from hyperpod_dpd.physics.precision import Precision, bytes_per_value

_ACTIVATION_BYTES = 2
"""Activations cross NVLink in BF16."""


class StepShape(Protocol):
    """What one engine step computes."""

    @property
    def prefill_tokens(self) -> int:
        """Prompt tokens computed in this step, over all sequences."""
        ...

    @property
    def prefill_pairs(self) -> int:
        """Pairs of such a token and a token that it attends to, itself included, over all sequences."""
        ...

    @property
    def decode_sequences(self) -> int:
        """Sequences that get one more token."""
        ...

    @property
    def decode_context_tokens(self) -> int:
        """Tokens in the KV cache that those attend to, over all sequences."""
        ...


class StepTimes(Protocol):
    """What the event model asks about one engine. `StepModel` answers from physics, a test from a constant."""

    @property
    def seconds_per_cached_token(self) -> float:
        """What one token of context of a decoding sequence adds to a step."""
        ...

    def decode_seconds(self, sequences: int) -> float:
        """Return the seconds of a decode step of `sequences`, without their context."""
        ...

    def mixed_seconds(
        self, prefill_tokens: int, attended_pairs: float, sequences: int, sampled: int
    ) -> float:
        """Return the seconds of a step with prompt tokens, without the context of its decoding sequences.

        Args:
            prefill_tokens: prompt tokens computed.
            attended_pairs: pairs of a prompt token and a token that it attends to.
            sequences: decoding sequences.
            sampled: sequences that get a token, prompts that end in this step included.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepModel:
    """Step times of one tensor-parallel worker.

    A step streams the weights once or multiplies for every token, whichever takes longer; prompt tokens attend to
    what stands before them; decoding sequences read their cache; two all-reduces per layer join the ranks. A step larger
    than the captured CUDA graphs takes no less than launching its kernels.

    It is also the `StepTimes` of the simulated engine: `step_seconds`, `store_seconds`, `transfer_seconds` and
    `retrieve_seconds`.
    """

    dense_bytes: int
    """Weights of one rank that every step reads."""

    expert_bytes: int
    """Weights of all routed experts on one rank."""

    active_share: float
    """Share of the routed experts that one token uses."""

    linear_seconds_per_token: float
    """Multiplications of one token."""

    head_seconds_per_sequence: float
    """Output head for one sampled token."""

    attention_seconds_per_pair: float
    """Prefill attention of one token to one other."""

    seconds_per_cached_token: float
    """Decode attention to one token of context."""

    weight_bytes_per_second: float
    """Rate at which weights are streamed."""

    fixed_seconds: float
    """What every step takes."""

    launch_seconds: float
    """Least seconds of a step that is no CUDA graph."""

    graph_tokens: int
    """Tokens of the largest step that is one; 0 for an eager engine."""

    sequence_seconds: float
    """Host work per sequence."""

    all_reduces: int
    """All-reduces in a step; 0 for a single rank."""

    all_reduce_seconds_per_token: float
    all_reduce_fixed_seconds: float

    kv_bytes_per_token: int
    """KV cache of one token on one rank."""

    line_rate_bytes_per_second: float
    """Line rate of one rank's EFA devices."""

    hand_off: HandOffCalibration = HAND_OFF
    transfer: TransferCalibration = TRANSFER

    _linear: dict[tuple[int, int], float] = field(default_factory=dict, compare=False, repr=False)

    def decode_seconds(self, sequences: int) -> float:
        """See `StepTimes`."""
        return self._base_seconds(sequences, sequences) + sequences * self.sequence_seconds

    def mixed_seconds(
        self, prefill_tokens: int, attended_pairs: float, sequences: int, sampled: int
    ) -> float:
        """See `StepTimes`."""
        return (
            self._base_seconds(prefill_tokens + sequences, sampled)
            + sampled * self.sequence_seconds
            + attended_pairs * self.attention_seconds_per_pair
        )

    def step_seconds(self, shape: StepShape) -> float:
        """Return the seconds of the step `shape`, as the simulated engine asks for them."""
        tokens = shape.prefill_tokens
        decode = shape.decode_context_tokens * self.seconds_per_cached_token
        if not tokens:
            return self.decode_seconds(shape.decode_sequences) + decode
        sequences = shape.decode_sequences
        return self.mixed_seconds(tokens, shape.prefill_pairs, sequences, sequences + 1) + decode

    def prefill_seconds(self, tokens: int, max_num_batched_tokens: int | None = None) -> float:
        """Return the seconds in which one prompt alone is computed, in steps of at most `max_num_batched_tokens`."""
        budget = max_num_batched_tokens or tokens
        seconds, done = 0.0, 0
        while done < tokens:
            chunk = min(budget, tokens - done)
            last = int(done + chunk == tokens)
            seconds += self.mixed_seconds(chunk, chunk * done + chunk * (chunk + 1) / 2, 0, last)
            done += chunk
        return seconds

    def decode_step_seconds(self, sequences: int, context_tokens: int) -> float:
        """Return the seconds of a decode step of `sequences` with `context_tokens` each."""
        return self.decode_seconds(sequences) + sequences * context_tokens * self.seconds_per_cached_token

    def store_seconds(self, tokens: int) -> float:
        """Return the sender's copy of `tokens` into its PD buffer; part of the forward pass."""
        return tokens * self.kv_bytes_per_token / self.hand_off.store_bytes_per_second

    def retrieve_seconds(self, tokens: int) -> float:
        """Return the receiver's copy of `tokens` into the KV cache; part of the forward pass."""
        return tokens * self.kv_bytes_per_token / self.hand_off.retrieve_bytes_per_second

    def transfer_seconds(self, tokens: int) -> float:
        """Return the seconds that `tokens` of one rank are on the wire."""
        return transfer_seconds(
            tokens * self.kv_bytes_per_token,
            self.line_rate_bytes_per_second,
            self.transfer.efficiency,
            self.transfer.fixed_seconds,
        )

    def _base_seconds(self, tokens: int, sampled: int) -> float:
        key = (tokens, sampled)
        known = self._linear.get(key)
        if known is None:
            known = self._linear[key] = self._compute_base_seconds(tokens, sampled)
        return known

    def _compute_base_seconds(self, tokens: int, sampled: int) -> float:
        touched = 1 - (1 - self.active_share) ** tokens if self.expert_bytes else 0.0
        streaming = (self.dense_bytes + touched * self.expert_bytes) / self.weight_bytes_per_second
        multiplying = tokens * self.linear_seconds_per_token + sampled * self.head_seconds_per_sequence
        all_reduce = self.all_reduce_fixed_seconds + tokens * self.all_reduce_seconds_per_token
        computing = self.fixed_seconds + max(streaming, multiplying) + self.all_reduces * all_reduce
        return computing if tokens <= self.graph_tokens else max(computing, self.launch_seconds)


def step_model(
    geometry: ModelGeometry,
    gpu: Gpu,
    *,
    tensor_parallel: int,
    weights: Precision = "bf16",
    kv_cache: Precision = "bf16",
    line_rate_bytes_per_second: float = 50e9,
    graph_tokens: int = VLLM_DEFAULTS.max_graph_tokens,
    calibration: StepCalibration = MEASURED,
) -> StepModel:
    """Return the step times of one worker.

    Args:
        geometry: the model.
        gpu: accelerator of every rank.
        tensor_parallel: ranks of the worker.
        weights: precision of the linear layers.
        kv_cache: precision of the KV cache.
        line_rate_bytes_per_second: line rate of one rank's EFA devices; 50 GB/s on every type of the catalog.
        graph_tokens: tokens of the largest step that is a CUDA graph; 0 for an eager engine.
        calibration: constants with their source.

    Raises:
        UnshardableError: the model cannot be divided over the ranks.
    """
    rank = parameters_per_rank(geometry, tensor_parallel)
    width = bytes_per_value(weights)
    fp8 = weights == "fp8"
    flops = (
        gpu.fp8_flops_per_second * calibration.fp8_efficiency
        if fp8
        else gpu.bf16_flops_per_second * calibration.bf16_efficiency
    )
    bf16_flops = gpu.bf16_flops_per_second * calibration.bf16_efficiency
    experts = geometry.experts
    active = experts.active / experts.routed if experts else 0.0
    used = rank.attention + rank.feed_forward + active * rank.routed_experts
    kv_bytes = kv_bytes_per_token_per_rank(geometry, kv_cache, tensor_parallel)
    layer_seconds = calibration.layer_seconds + (calibration.fp8_layer_seconds if fp8 else 0.0)
    ring = 2 * (tensor_parallel - 1) / tensor_parallel
    return StepModel(
        dense_bytes=(rank.attention + rank.feed_forward) * width + rank.head * _ACTIVATION_BYTES,
        expert_bytes=rank.routed_experts * width,
        active_share=active,
        linear_seconds_per_token=2 * used / flops,
        head_seconds_per_sequence=2 * rank.head / bf16_flops,
        attention_seconds_per_pair=_attention_flops_per_pair(geometry, tensor_parallel)
        / (gpu.bf16_flops_per_second * calibration.attention_efficiency),
        seconds_per_cached_token=kv_bytes / (gpu.hbm_bytes_per_second * calibration.cache_efficiency),
        weight_bytes_per_second=gpu.hbm_bytes_per_second * calibration.memory_efficiency,
        fixed_seconds=geometry.layers * layer_seconds,
        launch_seconds=geometry.layers * calibration.launch_layer_seconds,
        graph_tokens=graph_tokens,
        sequence_seconds=calibration.sequence_seconds,
        all_reduces=2 * geometry.layers if tensor_parallel > 1 else 0,
        all_reduce_seconds_per_token=geometry.hidden_size
        * _ACTIVATION_BYTES
        * ring
        / calibration.all_reduce_bus_bytes_per_second,
        all_reduce_fixed_seconds=calibration.all_reduce_seconds,
        kv_bytes_per_token=kv_bytes,
        line_rate_bytes_per_second=line_rate_bytes_per_second,
    )


def _attention_flops_per_pair(geometry: ModelGeometry, tensor_parallel: int) -> float:
    """A query times a key, and a weight times a value: two operations per element, over the heads of a rank."""
    latent = geometry.latent_attention
    width = geometry.head_dim + (latent.value_head_dim if latent else geometry.head_dim)
    return 2 * geometry.layers * geometry.attention_heads / tensor_parallel * width
