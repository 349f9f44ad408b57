"""KV bytes and PD buffer: worked numbers of Llama 3.3 70B that AWS, LMCache and our measurements agree on."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperpod_dpd.catalog.models import model
from hyperpod_dpd.physics import (
    GIB,
    PdBuffer,
    chunk_bytes_per_rank,
    kv_bytes_per_token,
    kv_bytes_per_token_per_rank,
    worst_case_in_flight_bytes,
)

LLAMA_70B = model("llama-3.3-70b-instruct")


def _buffer(size_gib: float, tensor_parallel: int = 8) -> PdBuffer:
    return PdBuffer(
        requested_bytes=round(size_gib * GIB),
        chunk_tokens=256,
        chunk_bytes=chunk_bytes_per_rank(LLAMA_70B, "bf16", tensor_parallel, 256),
    )


def test_llama_70b_takes_320_kib_per_token_and_40_kib_on_one_of_eight_ranks() -> None:
    assert kv_bytes_per_token(LLAMA_70B, "bf16") == 327_680
    assert kv_bytes_per_token(LLAMA_70B, "fp8") == 163_840
    assert kv_bytes_per_token_per_rank(LLAMA_70B, "bf16", 8) == 40_960


def test_sixteen_ranks_hold_as_much_as_eight_because_heads_are_replicated() -> None:
    assert kv_bytes_per_token_per_rank(LLAMA_70B, "bf16", 16) == 40_960


def test_latent_attention_keeps_one_vector_and_every_rank_holds_it() -> None:
    deepseek = model("deepseek-v3")
    assert kv_bytes_per_token(deepseek, "bf16") == 61 * (512 + 64) * 2
    assert kv_bytes_per_token_per_rank(deepseek, "bf16", 8) == kv_bytes_per_token(deepseek, "bf16")


def test_unknown_precision_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown precision `int4`\. help: use one of `bf16`, `fp8`"):
        kv_bytes_per_token(LLAMA_70B, "int4")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size_gib", "prompts", "longest_tokens"),
    [(2, 12, 52_224), (4, 25, 104_704), (8, 51, 209_664), (16, 102, 419_328), (32, 204, 838_656)],
)
def test_prompts_of_4096_that_a_buffer_holds(size_gib: int, prompts: int, longest_tokens: int) -> None:
    buffer = _buffer(size_gib)
    assert buffer.transfers(4096) == prompts
    assert buffer.longest_prompt_tokens == longest_tokens


def test_eight_gib_are_819_chunks_of_10_mib_and_2_mib_are_rounded_off() -> None:
    buffer = _buffer(8)
    assert buffer.chunk_bytes == 10 * 1024**2
    assert buffer.chunks == 819
    assert buffer.rounded_off_bytes == 2 * 1024**2


def test_reference_values_exceed_the_buffer_in_the_worst_case() -> None:
    worst = worst_case_in_flight_bytes(max_num_seqs=16, sequence_tokens=16_384, kv_bytes_per_token=40_960)
    assert worst == 10 * GIB > _buffer(8).usable_bytes


def test_partial_chunk_takes_a_whole_one() -> None:
    assert _buffer(8).bytes_for(257) == 2 * _buffer(8).chunk_bytes


def test_prompt_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token, given 0"):
        _buffer(8).transfers(0)


@given(requested=st.integers(0, 1 << 40), tokens=st.integers(1, 200_000))
@settings(deadline=None)
def test_what_the_buffer_says_it_holds_fits_into_it(requested: int, tokens: int) -> None:
    buffer = dataclasses.replace(_buffer(8), requested_bytes=requested)
    held = buffer.transfers(tokens)
    assert held * buffer.bytes_for(tokens) <= buffer.usable_bytes <= requested
    assert (held + 1) * buffer.bytes_for(tokens) > buffer.usable_bytes
