"""What fits into a GPU: the table of worked numbers for one of eight ranks of Llama 3.3 70B."""

import dataclasses

import pytest

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.models import model
from hyperpod_dpd.physics import (
    GIB,
    MemoryFit,
    default_gpu_memory_utilization,
    max_gpu_memory_utilization,
    memory_fit,
    reserve_bytes,
    weights_bytes_per_rank,
)

P5 = instance_type("ml.p5.48xlarge").gpu
P5EN = instance_type("ml.p5en.48xlarge").gpu
GPUS = {"H100": P5, "H200": P5EN}


def _fit(
    gpu: str,
    weights: str,
    utilization: float,
    buffer_gib: float = 0,
    tensor_parallel: int = 8,
    tokens: int = 16_384,
) -> MemoryFit:
    geometry = model("llama-3.3-70b-instruct")
    return memory_fit(
        GPUS[gpu],
        weights_bytes=weights_bytes_per_rank(geometry, weights, tensor_parallel),  # type: ignore[arg-type]
        kv_bytes_per_token=327_680 // tensor_parallel,
        sequence_tokens=tokens,
        tensor_parallel=tensor_parallel,
        gpu_memory_utilization=utilization,
        pd_buffer_bytes=round(buffer_gib * GIB),
    )


@pytest.mark.parametrize(
    ("gpu", "weights", "kv_gib", "million_tokens"),
    [
        ("H100", "bf16", 51.2, 1.34),
        ("H100", "fp8", 59.2, 1.55),
        ("H200", "bf16", 105.9, 2.78),
        ("H200", "fp8", 113.9, 2.99),
    ],
)
def test_kv_room_at_090_without_a_buffer(
    gpu: str, weights: str, kv_gib: float, million_tokens: float
) -> None:
    fit = _fit(gpu, weights, 0.90)
    assert fit.kv_bytes / GIB == pytest.approx(kv_gib, abs=0.06)
    assert fit.kv_tokens / 1e6 == pytest.approx(million_tokens, abs=0.006)


@pytest.mark.parametrize(
    ("gpu", "weights", "tokens"),
    [
        ("H100", "bf16", 1_339_000),
        ("H100", "fp8", 1_548_000),
        ("H200", "bf16", 2_778_000),
        ("H200", "fp8", 2_987_000),
    ],
)
def test_kv_tokens_agree_with_aiconfigurator_core_within_three_per_cent(
    gpu: str, weights: str, tokens: int
) -> None:
    assert _fit(gpu, weights, 0.90).kv_tokens == pytest.approx(tokens, rel=0.03)


@pytest.mark.parametrize(
    ("gpu", "buffer_gib", "utilization", "million_tokens"),
    [
        ("H100", 16, 0.786, 1.11),
        ("H100", 32, 0.585, 0.69),
        ("H200", 16, 0.879, 2.70),
        ("H200", 32, 0.765, 2.28),
    ],
)
def test_largest_utilization_beside_a_buffer(
    gpu: str, buffer_gib: int, utilization: float, million_tokens: float
) -> None:
    found = max_gpu_memory_utilization(GPUS[gpu], buffer_gib * GIB)
    assert found == pytest.approx(utilization, abs=0.001)
    fit = _fit(gpu, "bf16", found - 1e-9, buffer_gib)
    assert fit.fits
    assert fit.kv_tokens / 1e6 == pytest.approx(million_tokens, abs=0.02)


def test_one_per_cent_more_than_the_largest_does_not_fit() -> None:
    too_much = max_gpu_memory_utilization(P5, 16 * GIB) + 0.01
    assert not _fit("H100", "bf16", too_much, 16).leaves_room_beside


def test_two_ranks_on_h100_do_not_hold_one_long_sequence_beside_the_buffer() -> None:
    fit = _fit("H100", "bf16", max_gpu_memory_utilization(P5, 8 * GIB), 8, tensor_parallel=2)
    assert not fit.holds_a_sequence
    assert fit.needed_bytes / GIB == pytest.approx(65.7 + 2.5 + 8.0 + 3.99, abs=0.05)
    assert fit.needed_bytes > fit.hbm_bytes


def test_weights_larger_than_the_gpu_leave_no_tokens_instead_of_a_negative_number() -> None:
    fit = _fit("H100", "bf16", 0.9, tensor_parallel=1)
    assert fit.kv_tokens == 0
    assert not fit.fits


@pytest.mark.parametrize(
    ("gpu", "buffer_gib", "utilization"),
    [("H100", 0, 0.90), ("H100", 8, 0.86), ("H200", 8, 0.90), ("H100", 32, 0.56)],
)
def test_default_utilization_stays_under_the_ceiling(gpu: str, buffer_gib: int, utilization: float) -> None:
    found = default_gpu_memory_utilization(GPUS[gpu], buffer_gib * GIB)
    assert found == pytest.approx(utilization)
    assert found * GPUS[gpu].hbm_gib + buffer_gib <= 0.97 * GPUS[gpu].hbm_gib


def test_whole_per_cent_is_not_lost_to_a_rounding_error() -> None:
    """0.97 less 32 of 80 GiB is 0.57, and 0.5699… as a float."""
    round_numbers = dataclasses.replace(P5, hbm_gib=80.0)
    assert default_gpu_memory_utilization(round_numbers, 32 * GIB) == 0.57


@pytest.mark.parametrize(("ranks", "gib"), [(1, 1.89 + 0.5), (2, 1.89 + 2.10), (8, 1.89 + 2.10)])
def test_nccl_takes_its_part_from_two_ranks_on(ranks: int, gib: float) -> None:
    assert reserve_bytes(ranks) / GIB == pytest.approx(gib)


_EXACT = MemoryFit(
    hbm_bytes=1000,
    gpu_memory_utilization=0.75,
    weights_bytes=500,
    reserve_bytes=50,
    pd_buffer_bytes=200,
    beside_buffer_bytes=50,
    kv_bytes_per_token=10,
    sequence_tokens=20,
)
"""Its share of 750 holds 500 + 50 + 20 × 10 and not a byte more; 50 stay free beside the buffer."""


def test_worker_that_fits_to_the_byte_fits() -> None:
    assert (_EXACT.holds_a_sequence, _EXACT.leaves_room_beside, _EXACT.fits) == (True, True, True)
    assert (_EXACT.kv_tokens, _EXACT.needed_bytes, _EXACT.free_bytes) == (20, 950, 50)


def test_one_byte_of_weights_more_leaves_no_room_for_the_sequence() -> None:
    fit = dataclasses.replace(_EXACT, weights_bytes=501)
    assert (fit.holds_a_sequence, fit.leaves_room_beside, fit.fits) == (False, True, False)


def test_one_byte_of_buffer_more_leaves_no_room_beside_it() -> None:
    fit = dataclasses.replace(_EXACT, pd_buffer_bytes=201)
    assert (fit.holds_a_sequence, fit.leaves_room_beside, fit.fits) == (True, False, False)


@pytest.mark.parametrize(("buffer_bytes", "room"), [(0, True), (1, False)])
def test_only_a_buffer_needs_room_beside_the_share(buffer_bytes: int, room: bool) -> None:
    whole = dataclasses.replace(_EXACT, gpu_memory_utilization=1.0, pd_buffer_bytes=buffer_bytes)
    assert whole.leaves_room_beside is room


def test_awss_example_is_inside_the_rule() -> None:
    fit = _fit("H100", "bf16", 0.75, 8)
    assert fit.fits
    assert fit.kv_tokens / 1e6 == pytest.approx(1.03, abs=0.01)
