"""The measured constants follow from the measurements, by the procedure that `tools/calibrate.py` describes.

One H200, vLLM 0.25.1, one rank of Llama 3.3 70B at eight ranks, 2026-11-30, medians in milliseconds.
"""

import pytest

from hyperpod_dpd.catalog.calibration import HAND_OFF, MEASURED
from tools.calibrate import FEW_CACHED_TOKENS, TOLERANCE, fit

PREFILL_ALONE = {
    256: 17.1,
    512: 24.2,
    1024: 41.3,
    2048: 70.9,
    4096: 133.5,
    8192: 269.1,
    16384: 565.2,
    32000: 1248.5,
}
DECODE_STEP = {
    1024: {1: 7.57, 4: 7.69, 8: 7.61, 16: 7.92, 32: 7.80, 64: 8.16},
    4096: {1: 7.71, 4: 7.82, 8: 7.83, 16: 8.39, 32: 8.65, 64: 9.48},
    16384: {1: 8.05, 4: 8.35, 8: 8.57, 16: 9.85, 32: 11.14, 64: 15.13},
}
KV_BYTES_PER_TOKEN = 40_960
H200_BYTES_PER_SECOND = 4.8e12


def test_constants_of_the_catalog_are_the_fitted_ones() -> None:
    fitted = fit(
        [(tokens, ms / 1e3) for tokens, ms in PREFILL_ALONE.items()],
        [(b, context, ms / 1e3) for context, row in DECODE_STEP.items() for b, ms in row.items()],
    )
    assert MEASURED.layer_seconds == pytest.approx(fitted.layer_seconds, rel=TOLERANCE)
    assert MEASURED.bf16_efficiency == pytest.approx(fitted.bf16_efficiency, rel=TOLERANCE)
    assert MEASURED.attention_efficiency == pytest.approx(fitted.attention_efficiency, rel=TOLERANCE)
    assert HAND_OFF.request_seconds == pytest.approx(fitted.request_seconds, rel=TOLERANCE)


def test_long_decode_rows_need_more_than_the_memory_delivers_and_are_not_fitted() -> None:
    """Whatever served them was not HBM, so they say nothing about distinct prompts."""
    for sequences in (8, 16, 32, 64):
        more_bytes = sequences * (16_384 - 1_024) * KV_BYTES_PER_TOKEN
        more_seconds = (DECODE_STEP[16_384][sequences] - DECODE_STEP[1_024][sequences]) / 1e3
        assert more_bytes / more_seconds > H200_BYTES_PER_SECOND
        assert sequences * 16_384 > FEW_CACHED_TOKENS
