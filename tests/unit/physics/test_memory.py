"""What fits into a GPU: the table of worked numbers for one of eight ranks of Llama 3.3 70B."""

import pytest

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.models import model
from hyperpod_dpd.physics import (
    GIB,
    MemoryFit,
    default_gpu_memory_utilization,
    max_gpu_memory_utilization,
    memory_fit,
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


def test_awss_example_is_inside_the_rule() -> None:
    fit = _fit("H100", "bf16", 0.75, 8)
    assert fit.fits
    assert fit.kv_tokens / 1e6 == pytest.approx(1.03, abs=0.01)
