"""Buckets of the histograms that service level objectives are measured with, in seconds."""

from typing import Final

ROUTER_TTFT_BUCKETS: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
"""Upper bounds of `dpd_router_ttft_seconds`; a test compares them with the router's own."""

WORKER_TTFT_BUCKETS: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
"""Upper bounds of vLLM's `time_to_first_token_seconds` (vLLM 0.25.1, v1/metrics/loggers.py; the same in 0.19.0)."""

TPOT_BUCKETS: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
"""Upper bounds of vLLM's `request_time_per_output_token_seconds` (vLLM 0.25.1, v1/metrics/loggers.py)."""
