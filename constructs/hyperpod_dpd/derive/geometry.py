"""Geometry of the served model: from the catalog, or from a local `config.json`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperpod_dpd.catalog.models import Experts, LatentAttention, ModelGeometry, model
from hyperpod_dpd.catalog.row import Source, UnknownCatalogEntryError
from hyperpod_dpd.spec import Model

_FAMILIES = ("deepseek_v3", "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe")
"""Values of `model_type` whose parameter count the formulas of `physics` reproduce."""

_ATTENTION_LAYERS = {"full_attention", "sliding_attention"}


class UnreadableModelError(LookupError):
    """The geometry of a model cannot be had."""

    def __init__(self, says: str, given: str, fix: str, field: str = "name") -> None:
        self.says, self.given, self.fix, self.field = says, given, fix, field
        super().__init__(f"{says}: given {given}. help: {fix}")


def geometry_of(spec: Model) -> ModelGeometry:
    """Return the geometry of `spec`; a `config_file` wins over the catalog.

    Raises:
        UnreadableModelError: the catalog has no such model, or the `config_file` does not describe one.
    """
    if spec.config_file is not None:
        return read_config(Path(spec.config_file), name=spec.name)
    try:
        return model(spec.name)
    except UnknownCatalogEntryError as error:
        known = ", ".join(f"`{name}`" for name in error.known)
        raise UnreadableModelError(
            "unknown model",
            f"`name: {spec.name}`",
            f"name one of {known}, or set `model.config_file` to the model's `config.json`",
        ) from None


def read_config(path: Path, *, name: str) -> ModelGeometry:
    """Return the geometry that the Hugging Face `config.json` at `path` describes.

    The path is relative to the working directory. A multimodal configuration gives its `text_config`.

    Raises:
        UnreadableModelError: not a file, not JSON, a family whose formulas are unknown, or a number is missing.
    """
    raw = _read(path)
    text = raw.get("text_config", raw)
    return _Config(path, text if isinstance(text, Mapping) else raw).geometry(name)


def _read(path: Path) -> Mapping[str, Any]:
    import json  # noqa: PLC0415 - only for a model that the catalog lacks

    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _refuse(path, f"cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise _refuse(path, "is not JSON") from None
    if not isinstance(raw, dict):
        raise _refuse(path, "is not a JSON object")
    return raw


def _refuse(
    path: Path, says: str, fix: str = "give the `config.json` of the model repository"
) -> UnreadableModelError:
    return UnreadableModelError(f"model configuration {says}", f"`config_file: {path}`", fix, "config_file")


class _Config:
    def __init__(self, path: Path, raw: Mapping[str, Any]) -> None:
        self._path = path
        self._raw = raw

    def geometry(self, name: str) -> ModelGeometry:
        family = self._family()
        heads = self._number("num_attention_heads")
        hidden = self._number("hidden_size")
        latent = self._latent_attention()
        head_dim = self._number("head_dim", default=hidden // heads)
        if latent is not None:
            head_dim = latent.nope_head_dim + latent.rope_head_dim
        return ModelGeometry(
            name=name,
            repository=str(self._raw.get("_name_or_path") or name),
            hidden_size=hidden,
            layers=self._number("num_hidden_layers"),
            attention_heads=heads,
            kv_heads=self._number("num_key_value_heads", default=heads),
            head_dim=head_dim,
            intermediate_size=self._number("intermediate_size"),
            vocabulary_size=self._number("vocab_size"),
            max_position_tokens=self._number("max_position_embeddings"),
            tied_embeddings=self._raw.get("tie_word_embeddings") is True,
            attention_bias=self._raw.get("attention_bias") is True or family == "qwen2",
            experts=self._experts(),
            latent_attention=latent,
            source=Source(text=f"local file {self._path}", as_of="at run time"),
        )

    def _family(self) -> str:
        family = self._raw.get("model_type")
        if family not in _FAMILIES:
            known = ", ".join(f"`{entry}`" for entry in _FAMILIES)
            raise _refuse(
                self._path,
                f"has `model_type: {family}`, whose memory formulas are not known",
                f"only {known} are understood; add the model to `catalog/models.py` otherwise",
            )
        layers = self._raw.get("layer_types") or ()
        other = sorted({str(layer) for layer in layers} - _ATTENTION_LAYERS)
        if other:
            raise _refuse(
                self._path,
                f"has layers of type `{other[0]}`, which keep no KV cache that LMCache moves",
                "serve a model whose layers are all attention",
            )
        return str(family)

    def _number(self, *keys: str, default: int | None = None) -> int:
        for key in keys:
            found = self._raw.get(key)
            if found is None:
                continue
            if not isinstance(found, int) or isinstance(found, bool) or found < 1:
                raise _refuse(self._path, f"has `{key}: {found}`, which is not a positive whole number")
            return found
        if default is None:
            raise _refuse(self._path, f"has no `{keys[0]}`")
        return default

    def _count(self, key: str) -> int:
        return self._number(key) if self._raw.get(key) else 0

    def _experts(self) -> Experts | None:
        keys = ("num_local_experts", "n_routed_experts", "num_experts")
        if not any(self._raw.get(key) for key in keys):
            return None
        return Experts(
            routed=self._number(*keys),
            active=self._number("num_experts_per_tok"),
            shared=self._count("n_shared_experts"),
            intermediate_size=self._number(
                "moe_intermediate_size", default=self._number("intermediate_size")
            ),
            dense_layers=self._count("first_k_dense_replace"),
        )

    def _latent_attention(self) -> LatentAttention | None:
        if self._raw.get("kv_lora_rank") is None:
            return None
        return LatentAttention(
            kv_lora_rank=self._number("kv_lora_rank"),
            q_lora_rank=self._number("q_lora_rank"),
            rope_head_dim=self._number("qk_rope_head_dim"),
            nope_head_dim=self._number("qk_nope_head_dim"),
            value_head_dim=self._number("v_head_dim"),
        )
