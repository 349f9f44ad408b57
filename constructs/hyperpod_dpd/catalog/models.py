"""Geometry of models: what memory and time are computed from."""

from hyperpod_dpd.catalog.row import Source, UnknownCatalogEntryError
from hyperpod_dpd.spec.value import record


@record
class Experts:
    """Mixture-of-experts feed-forward layers."""

    routed: int
    """Routed experts per layer."""
    active: int
    """Routed experts that one token uses."""
    shared: int
    """Experts that every token uses."""
    intermediate_size: int
    """Width of one expert."""
    dense_layers: int = 0
    """Leading layers that have a dense feed-forward block instead."""


@record
class LatentAttention:
    """Multi-head latent attention: one compressed KV vector per token and layer, not one per head."""

    kv_lora_rank: int
    q_lora_rank: int
    rope_head_dim: int
    nope_head_dim: int
    value_head_dim: int


@record
class ModelGeometry:
    """Shape of a decoder-only transformer."""

    name: str
    repository: str
    """Repository on the Hugging Face Hub."""
    hidden_size: int
    layers: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocabulary_size: int
    max_position_tokens: int
    """Longest context in tokens."""
    tied_embeddings: bool = False
    attention_bias: bool = False
    """Bias on the query, key and value projections."""
    gated: bool = False
    """Whether the repository asks for an accepted licence and a token."""
    experts: Experts | None = None
    latent_attention: LatentAttention | None = None
    source: Source

    @property
    def dense(self) -> bool:
        """Whether every token uses every weight."""
        return self.experts is None


def _config(repository: str) -> Source:
    return Source(text=f"config.json of {repository}", as_of="2026-11-30")


_MODELS = {
    row.name: row
    for row in (
        ModelGeometry(
            name="llama-3.1-8b-instruct",
            repository="meta-llama/Llama-3.1-8B-Instruct",
            hidden_size=4096,
            layers=32,
            attention_heads=32,
            kv_heads=8,
            head_dim=128,
            intermediate_size=14336,
            vocabulary_size=128256,
            max_position_tokens=131072,
            gated=True,
            source=_config("meta-llama/Llama-3.1-8B-Instruct"),
        ),
        ModelGeometry(
            name="llama-3.1-70b-instruct",
            repository="meta-llama/Llama-3.1-70B-Instruct",
            hidden_size=8192,
            layers=80,
            attention_heads=64,
            kv_heads=8,
            head_dim=128,
            intermediate_size=28672,
            vocabulary_size=128256,
            max_position_tokens=131072,
            gated=True,
            source=_config("meta-llama/Llama-3.1-70B-Instruct"),
        ),
        ModelGeometry(
            name="llama-3.3-70b-instruct",
            repository="meta-llama/Llama-3.3-70B-Instruct",
            hidden_size=8192,
            layers=80,
            attention_heads=64,
            kv_heads=8,
            head_dim=128,
            intermediate_size=28672,
            vocabulary_size=128256,
            max_position_tokens=131072,
            gated=True,
            source=_config("meta-llama/Llama-3.3-70B-Instruct"),
        ),
        ModelGeometry(
            name="qwen2.5-32b-instruct",
            repository="Qwen/Qwen2.5-32B-Instruct",
            hidden_size=5120,
            layers=64,
            attention_heads=40,
            kv_heads=8,
            head_dim=128,
            intermediate_size=27648,
            vocabulary_size=152064,
            max_position_tokens=32768,
            attention_bias=True,
            source=_config("Qwen/Qwen2.5-32B-Instruct"),
        ),
        ModelGeometry(
            name="qwen2.5-72b-instruct",
            repository="Qwen/Qwen2.5-72B-Instruct",
            hidden_size=8192,
            layers=80,
            attention_heads=64,
            kv_heads=8,
            head_dim=128,
            intermediate_size=29568,
            vocabulary_size=152064,
            max_position_tokens=32768,
            attention_bias=True,
            source=_config("Qwen/Qwen2.5-72B-Instruct"),
        ),
        ModelGeometry(
            name="mistral-large-2-123b-instruct",
            repository="mistralai/Mistral-Large-Instruct-2407",
            hidden_size=12288,
            layers=88,
            attention_heads=96,
            kv_heads=8,
            head_dim=128,
            intermediate_size=28672,
            vocabulary_size=32768,
            max_position_tokens=131072,
            gated=True,
            source=_config("mistralai/Mistral-Large-Instruct-2407"),
        ),
        ModelGeometry(
            name="mixtral-8x22b-instruct",
            repository="mistralai/Mixtral-8x22B-Instruct-v0.1",
            hidden_size=6144,
            layers=56,
            attention_heads=48,
            kv_heads=8,
            head_dim=128,
            intermediate_size=16384,
            vocabulary_size=32768,
            max_position_tokens=65536,
            gated=True,
            experts=Experts(routed=8, active=2, shared=0, intermediate_size=16384),
            source=_config("mistralai/Mixtral-8x22B-Instruct-v0.1"),
        ),
        ModelGeometry(
            name="deepseek-v3",
            repository="deepseek-ai/DeepSeek-V3",
            hidden_size=7168,
            layers=61,
            attention_heads=128,
            kv_heads=128,
            head_dim=192,
            intermediate_size=18432,
            vocabulary_size=129280,
            max_position_tokens=163840,
            experts=Experts(routed=256, active=8, shared=1, intermediate_size=2048, dense_layers=3),
            latent_attention=LatentAttention(
                kv_lora_rank=512, q_lora_rank=1536, rope_head_dim=64, nope_head_dim=128, value_head_dim=128
            ),
            source=_config("deepseek-ai/DeepSeek-V3"),
        ),
    )
}


def models() -> tuple[ModelGeometry, ...]:
    """Return every model of the catalog."""
    return tuple(_MODELS.values())


def model(name: str) -> ModelGeometry:
    """Return the geometry of the model called `name`.

    Raises:
        UnknownCatalogEntryError: the catalog has no such model.
    """
    try:
        return _MODELS[name]
    except KeyError:
        raise UnknownCatalogEntryError(
            "model",
            name,
            tuple(_MODELS),
            "name a local `config_file` with the model's `config.json` to use another",
        ) from None
