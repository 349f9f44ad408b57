"""Parameter counts against the published ones, and what one rank holds."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperpod_dpd.catalog.models import ModelGeometry, model, models
from hyperpod_dpd.physics import (
    GIB,
    UnshardableError,
    parameters,
    parameters_per_rank,
    tensor_parallel_degrees,
    weights_bytes_per_rank,
)

_70B = model("llama-3.3-70b-instruct")

_PUBLISHED = {
    "llama-3.1-8b-instruct": 8_030_261_248,
    "llama-3.1-70b-instruct": 70_553_706_496,
    "llama-3.3-70b-instruct": 70_553_706_496,
    "qwen2.5-32b-instruct": 32_763_876_352,
    "qwen2.5-72b-instruct": 72_706_203_648,
    "mistral-large-2-123b-instruct": 122_610_069_504,
    "mixtral-8x22b-instruct": 140_630_071_296,
    "deepseek-v3": 671_026_419_200,
}
"""Totals of the safetensors index, as the Hub shows them beside each repository."""

_NOT_STORED = {"deepseek-v3": 58 * 256}
"""What the index holds and the arithmetic leaves out: the bias of the router over experts."""


@pytest.mark.parametrize("geometry", models(), ids=lambda row: row.name)
def test_parameter_count_equals_the_published_safetensors_total(geometry: ModelGeometry) -> None:
    published = _PUBLISHED[geometry.name]
    assert parameters(geometry).stored + _NOT_STORED.get(geometry.name, 0) == published


@pytest.mark.parametrize(
    ("weights", "tensor_parallel", "gib"),
    [("bf16", 8, 16.4), ("fp8", 8, 8.5), ("bf16", 4, 33), ("bf16", 2, 65.7)],
)
def test_llama_70b_weights_per_rank(weights: str, tensor_parallel: int, gib: float) -> None:
    found = weights_bytes_per_rank(model("llama-3.3-70b-instruct"), weights, tensor_parallel) / GIB  # type: ignore[arg-type]
    assert found == pytest.approx(gib, abs=0.2)


def test_fp8_weights_leave_embeddings_and_head_in_bf16() -> None:
    geometry = model("llama-3.3-70b-instruct")
    embeddings = 2 * geometry.vocabulary_size * geometry.hidden_size // 8
    norms = (2 * geometry.layers + 1) * geometry.hidden_size
    bf16 = weights_bytes_per_rank(geometry, "bf16", 8)
    assert weights_bytes_per_rank(geometry, "fp8", 8) == bf16 // 2 + embeddings + norms


def test_fp8_halves_experts_too() -> None:
    geometry = model("mixtral-8x22b-instruct")
    whole = parameters(geometry)
    saved = whole.stored_bytes("bf16") - whole.stored_bytes("fp8")
    assert saved == whole.stored - whole.embedding - whole.head - whole.full_precision
    assert whole.routed_experts > 0.9 * saved


@pytest.mark.parametrize("geometry", models(), ids=lambda row: row.name)
def test_feed_forward_and_experts_are_divided_and_never_replicated(geometry: ModelGeometry) -> None:
    whole = parameters(geometry)
    for ranks in tensor_parallel_degrees(geometry):
        rank = parameters_per_rank(geometry, ranks)
        assert ranks * rank.feed_forward == whole.feed_forward
        assert ranks * rank.routed_experts == whole.routed_experts


def test_biases_are_divided_like_their_heads() -> None:
    """Eight ranks of Qwen2.5 32B: five of forty query heads, one of eight key and one of eight value heads."""
    biased = model("qwen2.5-32b-instruct")
    unbiased = _replace(biased, attention_bias=False)
    biases = parameters_per_rank(biased, 8).stored - parameters_per_rank(unbiased, 8).stored
    assert biases == 64 * (5 + 1 + 1) * 128


def test_tied_embeddings_are_stored_once() -> None:
    untied = model("llama-3.1-8b-instruct")
    tied = _replace(untied, tied_embeddings=True)
    assert parameters(untied).stored - parameters(tied).stored == 128256 * 4096
    assert parameters(tied).head == parameters(untied).head


def test_more_ranks_than_kv_heads_replicate_them() -> None:
    geometry = _replace(model("llama-3.3-70b-instruct"), kv_heads=4)
    eight = parameters_per_rank(geometry, 8).attention
    queries_and_output = 2 * 8192 * 8192 // 8
    one_kv_head = 2 * 8192 * 128
    assert eight == 80 * (queries_and_output + one_kv_head)


@pytest.mark.parametrize("tensor_parallel", [0, 3, 5, 16])
def test_uneven_sharding_is_refused_with_the_degrees_that_work(tensor_parallel: int) -> None:
    geometry = _replace(model("qwen2.5-32b-instruct"))
    with pytest.raises(UnshardableError, match=r"help: use one of 1, 2, 4, 8"):
        parameters_per_rank(geometry, tensor_parallel)


@pytest.mark.parametrize(
    ("changes", "tensor_parallel", "reason", "degrees"),
    [
        ({}, 0, "a rank count is at least 1", "1, 2, 4, 8"),
        ({}, 3, "64 attention heads are not a multiple of it", "1, 2, 4, 8"),
        ({"kv_heads": 6}, 4, "6 KV heads neither divide it nor are a multiple of it", "1, 2"),
        ({"intermediate_size": 28_676}, 8, "the feed-forward width 28676 is not a multiple of it", "1, 2, 4"),
    ],
    ids=["no rank", "heads", "KV heads", "width"],
)
def test_refusal_names_model_degree_reason_and_the_degrees_that_work(
    changes: dict[str, object], tensor_parallel: int, reason: str, degrees: str
) -> None:
    with pytest.raises(UnshardableError) as refused:
        parameters_per_rank(_replace(_70B, **changes), tensor_parallel)
    assert str(refused.value) == (
        f"`llama-3.3-70b-instruct` cannot be divided over `tensor_parallel: {tensor_parallel}`: {reason}. "
        f"help: use one of {degrees}"
    )


def test_latent_attention_has_no_kv_heads_to_divide() -> None:
    assert tensor_parallel_degrees(_replace(model("deepseek-v3"), kv_heads=6)) == (1, 2, 4, 8)


def test_degrees_end_where_asked() -> None:
    assert tensor_parallel_degrees(_70B, most=8) == (1, 2, 4, 8)
    assert tensor_parallel_degrees(_70B, most=7) == (1, 2, 4)


@given(geometry=st.sampled_from(models()), data=st.data())
@settings(deadline=None)
def test_ranks_together_never_hold_less_than_the_model(geometry: ModelGeometry, data: st.DataObject) -> None:
    ranks = data.draw(st.sampled_from(tensor_parallel_degrees(geometry)))
    assert ranks * parameters_per_rank(geometry, ranks).stored >= parameters(geometry).stored


def _replace(geometry: ModelGeometry, **changes: object) -> ModelGeometry:
    return dataclasses.replace(geometry, **changes)  # type: ignore[arg-type]
