"""Situations that the event model has to get right, one by one."""

import dataclasses
import math
from dataclasses import dataclass

import pytest

from dpd_router.config import Timeouts
from hyperpod_dpd.planner.engine import EngineLimits
from hyperpod_dpd.planner.simulation import Outcome, PromptTooLongError, simulate
from hyperpod_dpd.planner.summary import NothingFinishedError, summarize
from hyperpod_dpd.planner.system import (
    ROUTER_BUFFER_WAIT_SECONDS,
    Colocated,
    Disaggregated,
    EngineSpec,
    Frontend,
    HandOff,
    HandOffFlow,
)
from hyperpod_dpd.planner.workload import ClosedLoop, FixedLengths, OpenLoop, TimedRequest

NOTHING = Frontend(request_seconds=0.0, request_seconds_per_token=0.0, router_seconds=0.0)
LIMITS = EngineLimits(max_num_batched_tokens=8192, max_num_seqs=64, kv_tokens=10**6, schedules_ahead=False)


@dataclass(frozen=True)
class Seconds:
    """A second per thousand prompt tokens, a hundredth per decode step."""

    seconds_per_cached_token: float = 0.0

    def decode_seconds(self, sequences: int) -> float:
        return 0.01

    def mixed_seconds(
        self, prefill_tokens: int, attended_pairs: float, sequences: int, sampled: int
    ) -> float:
        return prefill_tokens / 1000 + 0.01 * bool(sequences)


def _engine(**changes: int) -> EngineSpec:
    return EngineSpec(times=Seconds(), limits=dataclasses.replace(LIMITS, **changes))  # type: ignore[arg-type]


def _colocated(workers: int = 1, **changes: int) -> Colocated:
    return Colocated(engine=_engine(**changes), workers=workers, frontend=NOTHING)


def _disaggregated(flow: HandOffFlow = HandOffFlow.CONTINUE, **changes: object) -> Disaggregated:
    hand_off = HandOff(
        flow=flow,
        store_seconds_per_token=0.0,
        transfer_fixed_seconds=0.0,
        transfer_seconds_per_token=0.0,
        retrieve_seconds_per_token=0.0,
        inline=False,
        serial_seconds=0.0,
        unit_tokens=256,
        chunk_tokens=256,
        buffer_chunks=1000,
    )
    return Disaggregated(
        prefill=_engine(),
        decode=_engine(),
        prefillers=1,
        decoders=1,
        threshold_tokens=0,
        hand_off=dataclasses.replace(hand_off, **changes),  # type: ignore[arg-type]
        frontend=NOTHING,
    )


def _arrivals(*times: float, prompt: int = 1000, answer: int = 11) -> OpenLoop:
    return OpenLoop(
        requests=tuple(
            TimedRequest(arrival_seconds=at, input_tokens=prompt, output_tokens=answer) for at in times
        )
    )


def _tokens(outcome: Outcome) -> list[tuple[float, float]]:
    return [(round(one.first_token, 6), round(one.finished, 6)) for one in outcome.requests]


def test_one_request_takes_its_prefill_and_a_step_per_further_token() -> None:
    assert _tokens(simulate(_colocated(), _arrivals(0.0))) == [(1.0, 1.1)]


def test_prefill_of_a_newcomer_holds_up_who_decodes() -> None:
    """The first answer needs ten steps; the third of them is the newcomer's whole prefill."""
    first, second = _tokens(simulate(_colocated(), _arrivals(0.0, 1.025)))
    assert second[0] == pytest.approx(1.03 + 1.01)
    assert first[1] == pytest.approx(1.1 + 1.0)


def test_engine_that_schedules_ahead_lets_an_arrival_wait_one_step_more() -> None:
    ahead = Colocated(
        engine=EngineSpec(times=Seconds(), limits=dataclasses.replace(LIMITS, schedules_ahead=True)),
        workers=1,
        frontend=NOTHING,
    )
    assert _tokens(simulate(ahead, _arrivals(0.0, 1.025)))[1][0] == pytest.approx(1.04 + 1.01)


def test_disaggregation_spares_who_decodes() -> None:
    first, second = _tokens(simulate(_disaggregated(), _arrivals(0.0, 1.025)))
    assert first[1] < 1.2
    assert second[0] == pytest.approx(1.025 + 1.0)


def test_token_budget_cuts_a_prefill_into_steps_that_others_join() -> None:
    first, _ = _tokens(simulate(_colocated(max_num_batched_tokens=256), _arrivals(0.0, 1.025)))
    whole, _ = _tokens(simulate(_colocated(), _arrivals(0.0, 1.025)))
    assert first[1] == pytest.approx(whole[1], abs=0.05)  # as much in all
    long_answer = simulate(_colocated(max_num_batched_tokens=256), _arrivals(0.0, 1.025, answer=40))
    assert long_answer.requests[0].finished < 1.0 + 39 * 0.01 + 1.0 + 0.06


def test_sequence_limit_makes_the_next_one_wait_for_an_end() -> None:
    first, second = _tokens(simulate(_colocated(max_num_seqs=1), _arrivals(0.0, 0.0)))
    assert first == (1.0, 1.1)
    assert second == (2.1, 2.2)


def test_full_kv_cache_preempts_the_latest_and_computes_it_again() -> None:
    outcome = simulate(_colocated(kv_tokens=2100), _arrivals(0.0, 0.0, answer=100))
    assert outcome.preemptions == 1
    first, second = outcome.requests
    assert first.finished < second.finished
    alone = simulate(_colocated(kv_tokens=2100), _arrivals(0.0, answer=100)).requests[0]
    assert second.finished > alone.finished + 1.0  # its prompt and what it had generated were computed twice


def test_full_pd_buffer_makes_a_hand_off_wait_until_one_has_landed() -> None:
    roomy = simulate(_disaggregated(), _arrivals(0.0, 0.0))
    patient = dataclasses.replace(_disaggregated(buffer_chunks=4), buffer_wait_seconds=math.inf)
    tight = simulate(patient, _arrivals(0.0, 0.0))
    assert len(tight.requests) == 2
    assert tight.requests[1].first_token > roomy.requests[1].first_token
    assert tight.requests[1].first_token > tight.requests[0].first_token + 1.0


def test_a_prompt_that_finds_no_room_in_the_buffer_in_time_is_computed_by_the_decoder() -> None:
    impatient = dataclasses.replace(_disaggregated(buffer_chunks=4), buffer_wait_seconds=0.25)
    outcome = simulate(impatient, _arrivals(0.0, 0.0))
    handed_over, direct = outcome.requests
    assert (handed_over.disaggregated, direct.disaggregated) == (True, False)
    assert direct.first_token == pytest.approx(0.25 + 1.0)
    # a wait that is over without effect is no part of the measurement
    calm = simulate(dataclasses.replace(impatient, buffer_wait_seconds=500.0), _arrivals(0.0, 0.0))
    assert all(request.disaggregated for request in calm.requests)
    assert calm.seconds < 10


def test_the_router_waits_for_room_as_long_as_the_planner_says() -> None:
    assert Timeouts().buffer_wait_seconds == ROUTER_BUFFER_WAIT_SECONDS


def test_prompt_larger_than_the_buffer_and_answer_of_one_token_are_decoded_directly() -> None:
    small = simulate(_disaggregated(buffer_chunks=3), _arrivals(0.0))
    single = simulate(_disaggregated(), _arrivals(0.0, answer=1))
    assert not small.requests[0].disaggregated
    assert not single.requests[0].disaggregated
    assert single.requests[0].finished == single.requests[0].first_token


@pytest.mark.parametrize(
    ("flow", "first_token"),
    [
        (HandOffFlow.CONTINUE, 1.0),
        (HandOffFlow.LAND, 1.0 + 1 / 1000 + 8 / 1000),
        (HandOffFlow.RECOMPUTE, 1.0 + 232 / 1000),
    ],
)
def test_flow_decides_who_gives_the_first_token_and_what_is_computed_again(
    flow: HandOffFlow, first_token: float
) -> None:
    """Of 1,000 tokens the last block of 16 begins at 992, the last chunk of 256 at 768."""
    assert simulate(_disaggregated(flow), _arrivals(0.0)).requests[0].first_token == pytest.approx(
        first_token
    )


def test_inline_transfer_blocks_the_prefiller_and_asynchronous_does_not() -> None:
    slow_wire = 0.5 / 1000
    inline = simulate(
        _disaggregated(inline=True, transfer_seconds_per_token=slow_wire), _arrivals(0.0, 0.0, 0.0)
    )
    background = simulate(_disaggregated(transfer_seconds_per_token=slow_wire), _arrivals(0.0, 0.0, 0.0))
    assert background.requests[2].first_token == pytest.approx(3.0)
    assert inline.requests[2].first_token == pytest.approx(4.5)


def test_threshold_routes_long_prompts_only() -> None:
    system = dataclasses.replace(_disaggregated(), threshold_tokens=500)
    loop = OpenLoop(
        requests=tuple(
            TimedRequest(arrival_seconds=0.0, input_tokens=tokens, output_tokens=4)
            for tokens in (499, 500, 501)
        )
    )
    assert [one.disaggregated for one in simulate(system, loop).requests] == [False, True, True]


def test_prefix_hits_are_not_computed_but_at_least_a_block_is() -> None:
    half = simulate(_colocated(), _arrivals(0.0, prompt=1600), prefix_hit_share=0.5)
    assert half.requests[0].first_token == pytest.approx(0.8)
    everything = simulate(_colocated(), _arrivals(0.0, prompt=1600), prefix_hit_share=1.0)
    assert everything.requests[0].first_token == pytest.approx(0.016)


def test_request_that_fits_nowhere_is_refused_with_the_numbers() -> None:
    with pytest.raises(PromptTooLongError, match=r"1,000 \+ 11 tokens does not fit into the 1,000 tokens"):
        simulate(_colocated(kv_tokens=1000), _arrivals(0.0))


def test_benchmark_that_counts_once_a_second_cuts_off_what_is_in_flight() -> None:
    loop = ClosedLoop(
        concurrency=4,
        requests=1000,
        lengths=FixedLengths(input_tokens=100, output_tokens=11),
        stop_after=10,
        stop_on_whole_seconds=True,
    )
    outcome = simulate(_colocated(), loop)
    assert outcome.seconds == int(outcome.seconds)
    assert len(outcome.requests) >= 10
    assert outcome.dropped >= 1


def test_nothing_finished_is_said_instead_of_dividing_by_zero() -> None:
    with pytest.raises(NothingFinishedError, match="no request finished"):
        summarize(
            Outcome(
                requests=(),
                dropped=3,
                seconds=1.0,
                prefill_busy_share=0.0,
                decode_busy_share=0.0,
                preemptions=0,
            )
        )
