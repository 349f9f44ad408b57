"""Parameters of a model and what one tensor-parallel rank holds of them."""

from hyperpod_dpd.catalog.models import ModelGeometry
from hyperpod_dpd.physics.kv import kv_heads_per_rank
from hyperpod_dpd.physics.precision import Precision, bytes_per_value
from hyperpod_dpd.spec.value import record

_FULL_PRECISION_BYTES = 2
"""Embeddings, the output head, norms, biases and expert routers stay in BF16 whatever the weights are."""


class UnshardableError(ValueError):
    """A model cannot be divided over that many tensor-parallel ranks."""

    def __init__(self, geometry: ModelGeometry, tensor_parallel: int, reason: str) -> None:
        self.geometry, self.tensor_parallel, self.reason = geometry, tensor_parallel, reason
        degrees = ", ".join(str(degree) for degree in tensor_parallel_degrees(geometry))
        super().__init__(
            f"`{geometry.name}` cannot be divided over `tensor_parallel: {tensor_parallel}`: {reason}. "
            f"help: use one of {degrees}"
        )


@record
class Parameters:
    """Numbers of parameters by what happens to them in a step."""

    embedding: int
    """Input embedding: looked up, never multiplied."""

    head: int
    """Output head. Equal to the embedding and not stored again when the two are tied."""

    attention: int
    """Query, key, value and output projections."""

    feed_forward: int
    """Dense feed-forward blocks and experts that every token uses."""

    routed_experts: int
    """Experts of which a token uses only some."""

    full_precision: int
    """Norms, biases and expert routers."""

    tied: bool
    """Whether embedding and head are one tensor."""

    @property
    def stored(self) -> int:
        """Parameters in memory."""
        head = 0 if self.tied else self.head
        return (
            self.embedding
            + head
            + self.attention
            + self.feed_forward
            + self.routed_experts
            + self.full_precision
        )

    def stored_bytes(self, weights: Precision) -> int:
        """Return the bytes in memory when the linear layers are stored as `weights`."""
        linear = self.attention + self.feed_forward + self.routed_experts
        rest = self.stored - linear
        return linear * bytes_per_value(weights) + rest * _FULL_PRECISION_BYTES


def _obstacle(geometry: ModelGeometry, tensor_parallel: int) -> str | None:
    if tensor_parallel < 1:
        return "a rank count is at least 1"
    if geometry.attention_heads % tensor_parallel:
        return f"{geometry.attention_heads} attention heads are not a multiple of it"
    replicated = tensor_parallel % geometry.kv_heads == 0
    if geometry.latent_attention is None and geometry.kv_heads % tensor_parallel and not replicated:
        return f"{geometry.kv_heads} KV heads neither divide it nor are a multiple of it"
    width = geometry.experts.intermediate_size if geometry.experts else geometry.intermediate_size
    if width % tensor_parallel:
        return f"the feed-forward width {width} is not a multiple of it"
    return None


def tensor_parallel_degrees(geometry: ModelGeometry, most: int = 8) -> tuple[int, ...]:
    """Return the tensor-parallel degrees up to `most` over which the model can be divided."""
    return tuple(degree for degree in range(1, most + 1) if _obstacle(geometry, degree) is None)


def refuse_unless_shardable(geometry: ModelGeometry, tensor_parallel: int) -> None:
    """Check that the model can be divided over `tensor_parallel` ranks.

    Raises:
        UnshardableError: heads or feed-forward width do not divide; vLLM refuses to start.
    """
    obstacle = _obstacle(geometry, tensor_parallel)
    if obstacle is not None:
        raise UnshardableError(geometry, tensor_parallel, obstacle)


def parameters(geometry: ModelGeometry) -> Parameters:
    """Return the parameters of the whole model."""
    return parameters_per_rank(geometry, tensor_parallel=1)


def parameters_per_rank(geometry: ModelGeometry, tensor_parallel: int) -> Parameters:
    """Return the parameters that one rank holds.

    Replicated on every rank: norms, expert routers, the down-projections of latent attention, and KV heads when
    there are more ranks than heads.

    Raises:
        UnshardableError: the model cannot be divided over that many ranks.
    """
    refuse_unless_shardable(geometry, tensor_parallel)
    vocabulary = geometry.vocabulary_size * geometry.hidden_size // tensor_parallel
    return Parameters(
        embedding=vocabulary,
        head=vocabulary,
        attention=geometry.layers * _attention(geometry, tensor_parallel),
        feed_forward=_feed_forward(geometry, tensor_parallel),
        routed_experts=_routed_experts(geometry, tensor_parallel),
        full_precision=_full_precision(geometry, tensor_parallel),
        tied=geometry.tied_embeddings,
    )


def weights_bytes_per_rank(geometry: ModelGeometry, weights: Precision, tensor_parallel: int) -> int:
    """Return the bytes of weights on one rank.

    Raises:
        UnshardableError: the model cannot be divided over that many ranks.
    """
    return parameters_per_rank(geometry, tensor_parallel).stored_bytes(weights)


def _attention(geometry: ModelGeometry, tensor_parallel: int) -> int:
    heads = geometry.attention_heads // tensor_parallel
    latent = geometry.latent_attention
    if latent is None:
        queries = heads * geometry.head_dim
        keys = kv_heads_per_rank(geometry, tensor_parallel) * geometry.head_dim
        return geometry.hidden_size * (2 * queries + 2 * keys)
    query_key = latent.nope_head_dim + latent.rope_head_dim
    return (
        geometry.hidden_size * latent.q_lora_rank
        + latent.q_lora_rank * heads * query_key
        + geometry.hidden_size * (latent.kv_lora_rank + latent.rope_head_dim)
        + latent.kv_lora_rank * heads * (latent.nope_head_dim + latent.value_head_dim)
        + heads * latent.value_head_dim * geometry.hidden_size
    )


def _feed_forward(geometry: ModelGeometry, tensor_parallel: int) -> int:
    block = 3 * geometry.hidden_size  # gate, up and down
    experts = geometry.experts
    if experts is None:
        return geometry.layers * block * geometry.intermediate_size // tensor_parallel
    dense = experts.dense_layers * block * geometry.intermediate_size
    shared = (geometry.layers - experts.dense_layers) * block * experts.shared * experts.intermediate_size
    return (dense + shared) // tensor_parallel


def _routed_experts(geometry: ModelGeometry, tensor_parallel: int) -> int:
    experts = geometry.experts
    if experts is None:
        return 0
    layers = geometry.layers - experts.dense_layers
    return layers * experts.routed * 3 * geometry.hidden_size * experts.intermediate_size // tensor_parallel


def _full_precision(geometry: ModelGeometry, tensor_parallel: int) -> int:
    norms = (2 * geometry.layers + 1) * geometry.hidden_size
    latent = geometry.latent_attention
    if latent is not None:
        norms += geometry.layers * (latent.q_lora_rank + latent.kv_lora_rank)
    biases = 0
    if geometry.attention_bias:
        heads = geometry.attention_heads // tensor_parallel + 2 * kv_heads_per_rank(geometry, tensor_parallel)
        biases = geometry.layers * heads * geometry.head_dim
    routers = 0
    if geometry.experts is not None:
        layers = geometry.layers - geometry.experts.dense_layers
        routers = layers * geometry.experts.routed * geometry.hidden_size
    return norms + biases + routers
