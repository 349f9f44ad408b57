"""Time on the wire and devices of a worker's share."""

import dataclasses
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.physics import (
    efa_devices,
    efficiency_band,
    line_rate_bytes_per_second,
    transfer_seconds,
    transfer_seconds_band,
)

P5 = instance_type("ml.p5.48xlarge")
P5EN = instance_type("ml.p5en.48xlarge")
KV_PER_RANK = 40_960


@pytest.mark.parametrize(
    ("tokens", "kv_bytes", "efficiency", "milliseconds"),
    [
        (4_096, KV_PER_RANK, 1.0, 3.4),
        (4_096, KV_PER_RANK, 0.6, 5.6),
        (4_096, KV_PER_RANK, 0.25, 13.4),
        (4_096, KV_PER_RANK // 2, 0.6, 2.8),
        (8_192, KV_PER_RANK, 0.6, 11.2),
        (32_768, KV_PER_RANK, 0.6, 45),
        (131_072, KV_PER_RANK, 1.0, 107),
        (131_072, KV_PER_RANK, 0.25, 429),
    ],
)
def test_wire_time_of_llama_70b_at_eight_ranks(
    tokens: int, kv_bytes: int, efficiency: float, milliseconds: float
) -> None:
    line_rate = line_rate_bytes_per_second(P5, P5)
    seconds = transfer_seconds(tokens * kv_bytes, line_rate, efficiency, fixed_seconds=0)
    assert seconds * 1e3 == pytest.approx(milliseconds, rel=0.02)


def test_both_instance_types_give_a_gpu_50_gigabytes_per_second() -> None:
    assert line_rate_bytes_per_second(P5, P5EN) == 50e9


def test_slower_side_sets_the_rate() -> None:
    slow = dataclasses.replace(P5, network_gbps=1600)
    assert line_rate_bytes_per_second(slow, P5EN) == line_rate_bytes_per_second(P5EN, slow) == 25e9


def test_sockets_are_below_the_share_at_which_efa_is_in_use_at_all() -> None:
    sockets, efa = efficiency_band("UCX"), efficiency_band("LIBFABRIC")
    assert sockets.low == sockets.expected == sockets.high == 0.05
    assert (efa.low, efa.expected, efa.high) == (0.4, 0.6, 0.9)


def test_band_spans_what_was_measured_on_efa_around_the_expected_value() -> None:
    band = transfer_seconds_band(4_096 * KV_PER_RANK, 50e9)
    assert band.low < band.expected < band.high
    assert band.expected == pytest.approx(0.002 + 0.0056, rel=0.01)


@given(size=st.integers(0, 1 << 36), efficiency=st.floats(0.01, 1), factor=st.floats(1, 10))
@settings(deadline=None)
def test_more_bandwidth_is_never_slower(size: int, efficiency: float, factor: float) -> None:
    assert transfer_seconds(size, 50e9 * factor, efficiency) <= transfer_seconds(size, 50e9, efficiency)


@pytest.mark.parametrize(
    ("rate", "efficiency", "given_values"),
    [(0.0, 0.6, "0 B/s at efficiency 0.6"), (50e9, 0.0, "5e+10 B/s at efficiency 0"), (-1.0, 0.6, "-1 B/s")],
)
def test_rate_that_is_not_positive_is_refused(rate: float, efficiency: float, given_values: str) -> None:
    with pytest.raises(ValueError, match=f"positive rate, given {re.escape(given_values)}"):
        transfer_seconds(1, rate, efficiency)


@pytest.mark.parametrize(
    ("instance", "gpus", "devices"),
    [
        ("ml.p5.48xlarge", 8, 32),
        ("ml.p5.48xlarge", 4, 16),
        ("ml.p5.48xlarge", 1, 4),
        ("ml.p5en.48xlarge", 8, 16),
        ("ml.p5en.48xlarge", 4, 4 * 2),
    ],
)
def test_devices_are_the_gpus_share(instance: str, gpus: int, devices: int) -> None:
    assert efa_devices(instance_type(instance), gpus) == devices


@pytest.mark.parametrize("gpus", [0, 9])
def test_share_that_the_node_does_not_have_is_refused(gpus: int) -> None:
    with pytest.raises(ValueError, match=rf"`ml\.p5\.48xlarge` has 8 GPUs, given {gpus}\. help: use 1 to 8"):
        efa_devices(P5, gpus)
