"""KV cache: what one token of context costs."""

from hyperpod_dpd.catalog.models import ModelGeometry
from hyperpod_dpd.physics.precision import Precision, bytes_per_value


def kv_heads_per_rank(geometry: ModelGeometry, tensor_parallel: int) -> int:
    """Return the KV heads that one tensor-parallel rank holds.

    With more ranks than KV heads every head is replicated, so that a rank never holds less than one.
    """
    return max(1, geometry.kv_heads // tensor_parallel)


def kv_bytes_per_token_per_rank(geometry: ModelGeometry, kv_cache: Precision, tensor_parallel: int) -> int:
    """Return the bytes that one token occupies in the KV cache of one rank.

    Grouped-query attention keeps a key and a value per KV head and layer, divided over the ranks. Latent attention
    keeps one compressed vector and one rotary key per layer, and every rank holds all of it.
    """
    width = bytes_per_value(kv_cache)
    latent = geometry.latent_attention
    if latent is not None:
        return geometry.layers * (latent.kv_lora_rank + latent.rope_head_dim) * width
    return 2 * geometry.layers * kv_heads_per_rank(geometry, tensor_parallel) * geometry.head_dim * width


def kv_bytes_per_token(geometry: ModelGeometry, kv_cache: Precision) -> int:
    """Return the bytes that one token occupies in the KV cache of an unsharded model."""
    return kv_bytes_per_token_per_rank(geometry, kv_cache, tensor_parallel=1)
