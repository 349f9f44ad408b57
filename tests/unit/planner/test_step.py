"""The step-time model: what it charges for, and that it is the simulated engine's protocol."""

import dataclasses
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpd_simulator.step_times import StepShape, StepTimes
from hyperpod_dpd.catalog.calibration import MEASURED, PUBLIC, StepCalibration
from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.models import model
from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.planner.predict import one_rank_of
from hyperpod_dpd.planner.step import StepModel, step_model

H100 = instance_type("ml.p5.48xlarge").gpu
H200 = instance_type("ml.p5en.48xlarge").gpu


def _times(name: str = "llama-3.3-70b-instruct", calibration: StepCalibration = MEASURED) -> StepModel:
    return step_model(model(name), H200, tensor_parallel=8, calibration=calibration)


def test_it_is_the_simulated_engines_step_times() -> None:
    times = _times()
    assert isinstance(times, StepTimes)
    prefill = times.step_seconds(StepShape(prefill_tokens=4096, prefill_pairs=4096 * 4097 // 2))
    assert prefill == pytest.approx(times.prefill_seconds(4096), rel=1e-3)
    decode = times.step_seconds(StepShape(decode_sequences=16, decode_context_tokens=16 * 4224))
    assert decode == times.decode_step_seconds(16, 4224)


def test_a_prompt_in_parts_costs_the_simulated_engine_what_the_planner_says() -> None:
    """The planner once took pairs of tokens for tokens: every part after the first cost a hundred times too much."""
    times = _times()
    parts = [(2048, 0), (2048, 2048), (904, 4096)]
    steps = [
        StepShape(prefill_tokens=tokens, prefill_pairs=tokens * cached + tokens * (tokens + 1) // 2)
        for tokens, cached in parts
    ]
    assert sum(map(times.step_seconds, steps)) == pytest.approx(times.prefill_seconds(5000, 2048), rel=1e-3)


def test_copies_and_wire_are_those_that_were_measured() -> None:
    times = _times()
    assert times.store_seconds(4096) == pytest.approx(18.6e-3)
    assert times.retrieve_seconds(3840) == pytest.approx(17e-3)
    assert times.transfer_seconds(4096) == pytest.approx(7.6e-3, rel=0.01)


def test_more_memory_bandwidth_makes_decode_faster_and_prefill_no_slower() -> None:
    slow = step_model(model("llama-3.3-70b-instruct"), H100, tensor_parallel=8)
    fast = step_model(model("llama-3.3-70b-instruct"), H200, tensor_parallel=8)
    assert fast.decode_step_seconds(32, 4096) < slow.decode_step_seconds(32, 4096)
    assert fast.prefill_seconds(4096) == slow.prefill_seconds(4096)


def test_experts_that_no_token_uses_are_not_read() -> None:
    times = dataclasses.replace(_times("mixtral-8x22b-instruct"), all_reduces=0, sequence_seconds=0.0)
    one, many = times.decode_seconds(1), times.decode_seconds(64)
    quarter_of_experts = 0.25 * times.expert_bytes / times.weight_bytes_per_second
    all_experts = times.expert_bytes / times.weight_bytes_per_second
    assert many - one == pytest.approx(all_experts - quarter_of_experts, rel=1e-3)


def test_fp8_halves_the_weights_to_read_but_not_the_time() -> None:
    bf16 = _times()
    fp8 = step_model(model("llama-3.3-70b-instruct"), H200, tensor_parallel=8, weights="fp8")
    assert bf16.decode_seconds(1) / 2 < fp8.decode_seconds(1) < bf16.decode_seconds(1)


def test_chunks_of_a_prompt_add_up_to_more_than_the_whole() -> None:
    times = _times()
    assert times.prefill_seconds(8192, 512) > times.prefill_seconds(8192, 2048) > times.prefill_seconds(8192)


def test_a_step_that_is_no_cuda_graph_takes_no_less_than_launching_it() -> None:
    """A decoder answered a prompt of 1,024 tokens after 42.4 ms, where its kernels take 33: docs/evidence, 2026-11-30."""
    rank = one_rank_of(model("llama-3.3-70b-instruct"), 8)

    def times(graph_tokens: int) -> StepModel:
        return step_model(rank, H200, tensor_parallel=1, graph_tokens=graph_tokens)

    assert times(128).prefill_seconds(1024) == pytest.approx(42.4e-3, rel=0.01)
    assert times(1024).prefill_seconds(1024) == pytest.approx(33.1e-3, rel=0.01)
    assert times(128).prefill_seconds(4096) == times(4096).prefill_seconds(4096)
    assert times(128).decode_seconds(128) < times(0).decode_seconds(128)
    assert times(0).decode_seconds(1) == pytest.approx(42.4e-3, rel=0.01)


@pytest.mark.parametrize(
    ("sequences", "budget", "tokens"),
    [(64, 8192, 128), (256, 8192, 512), (1024, 8192, 512), (1024, 256, 256)],
)
def test_vllm_captures_twice_the_sequences_and_no_more_than_512_tokens(
    sequences: int, budget: int, tokens: int
) -> None:
    """128 and 512 as vLLM 0.25.1 wrote them into its log on an H200."""
    assert VLLM_DEFAULTS.graph_tokens(max_num_seqs=sequences, max_num_batched_tokens=budget) == tokens


@dataclass(frozen=True)
class _Shape:
    prefill_tokens: int
    prefill_pairs: int
    decode_sequences: int
    decode_context_tokens: int


@given(
    calibration=st.sampled_from([MEASURED, PUBLIC]),
    tokens=st.integers(0, 8192),
    pairs=st.integers(0, 100_000_000),
    sequences=st.integers(0, 256),
    cached=st.integers(0, 1_000_000),
)
@settings(deadline=None)
def test_more_work_never_takes_less_time(
    calibration: StepCalibration, tokens: int, pairs: int, sequences: int, cached: int
) -> None:
    times = _times(calibration=calibration)
    less = times.step_seconds(_Shape(tokens, pairs, sequences, cached))
    assert less > 0
    for more in (
        _Shape(tokens + 64, pairs, sequences, cached),
        _Shape(tokens, pairs + 100, sequences, cached),
        _Shape(tokens, pairs, sequences + 1, cached),
        _Shape(tokens, pairs, sequences, cached + 100),
    ):
        assert times.step_seconds(more) >= less
