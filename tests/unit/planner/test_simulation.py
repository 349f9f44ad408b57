"""Situations that the event model has to get right, one by one."""

import dataclasses
import itertools
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


def test_prompt_that_takes_the_whole_budget_leaves_the_next_one_waiting() -> None:
    outcome = simulate(_colocated(max_num_batched_tokens=1000), _arrivals(0.0, 0.1, 0.1, answer=1))
    assert [first for first, _ in _tokens(outcome)] == [1.0, 2.0, 3.0]


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


def test_preemption_takes_place_when_the_next_token_has_no_room() -> None:
    """At 2.01 there are 2 + 1 tokens; 48 steps later 2,099 of 2,100 are held, and the second goes, with 49 tokens.

    The first ends 50 steps later. Then the second computes 1,049 tokens, gives its 50th, and takes 50 steps more.
    """
    outcome = simulate(_colocated(kv_tokens=2100), _arrivals(0.0, 0.0, answer=100))
    assert _tokens(outcome) == [(1.0, 2.99), (2.01, 4.539)]


def test_preempted_sequence_finds_nothing_in_the_prefix_cache_any_more() -> None:
    """Half of each prompt was cached: 504 tokens at first, and all 1,049 after the preemption at 1.498."""
    outcome = simulate(_colocated(kv_tokens=2100), _arrivals(0.0, 0.0, answer=100), prefix_hit_share=0.5)
    assert _tokens(outcome) == [(0.504, 1.998), (1.018, 3.547)]


@pytest.mark.parametrize(("kv_tokens", "first_tokens"), [(2003, [1.0, 2.01]), (2002, [1.0, 2.1])])
def test_prompt_is_admitted_when_a_token_stays_free_beside_it(
    kv_tokens: int, first_tokens: list[float]
) -> None:
    """1,000 tokens beside 1,001 and the next one of who decodes."""
    outcome = simulate(_colocated(kv_tokens=kv_tokens), _arrivals(0.0, 0.0))
    assert [first for first, _ in _tokens(outcome)] == first_tokens


def test_time_is_counted_from_the_first_arrival_to_the_last_answer() -> None:
    assert simulate(_colocated(), _arrivals(5.0)).seconds == pytest.approx(1.1)


def test_busy_share_is_that_of_all_workers_of_a_kind() -> None:
    one = simulate(_colocated(), _arrivals(0.0))
    assert one.decode_busy_share == pytest.approx(1.0)
    assert math.isnan(one.prefill_busy_share)
    assert simulate(_colocated(workers=2), _arrivals(0.0)).decode_busy_share == pytest.approx(0.5)
    # a second of prefill; then a token of the prompt and nine steps
    apart = simulate(_disaggregated(), _arrivals(0.0))
    assert apart.seconds == pytest.approx(1.091)
    assert apart.prefill_busy_share == pytest.approx(1 / 1.091)
    assert apart.decode_busy_share == pytest.approx(0.091 / 1.091)


def test_request_goes_to_the_worker_that_has_fewer_of_them() -> None:
    """The first answer occupies its worker for long; the second worker is free again when the third comes."""
    loop = OpenLoop(
        requests=tuple(
            TimedRequest(arrival_seconds=at, input_tokens=1000, output_tokens=answer)
            for at, answer in ((0.0, 1000), (0.0, 11), (2.0, 11))
        )
    )
    outcome = simulate(_colocated(workers=2, max_num_seqs=1), loop)
    assert [first for first, _ in _tokens(outcome)] == [1.0, 1.0, 3.0]


def test_hand_offs_are_spread_over_decoders() -> None:
    both = dataclasses.replace(_disaggregated(), prefillers=2, decoders=2, decode=_engine(max_num_seqs=1))
    first, second = simulate(both, _arrivals(0.0, 0.0)).requests
    assert first.finished == pytest.approx(1.091)
    assert second.finished == pytest.approx(1.091)


def test_prompt_goes_to_the_prefiller_with_fewer_tokens_before_it() -> None:
    """The third follows the second, whose last step takes 24 of its tokens along."""
    system = dataclasses.replace(_disaggregated(), prefillers=2, prefill=_engine(max_num_batched_tokens=512))
    loop = OpenLoop(
        requests=tuple(
            TimedRequest(arrival_seconds=at, input_tokens=tokens, output_tokens=2)
            for at, tokens in ((0.0, 3000), (0.1, 1000), (0.2, 1000))
        )
    )
    assert [first for first, _ in _tokens(simulate(system, loop))] == [3.0, 1.124, 2.1]


_PASSES = Frontend(request_seconds=0.02, request_seconds_per_token=1e-5, router_seconds=0.1)


@pytest.mark.parametrize(
    ("flow", "times"),
    [
        # in, 0.13, the prompt, 1.0, and back through the router with the first token;
        # through the decoder's server, 0.03001, a token of the prompt and nine steps
        (HandOffFlow.CONTINUE, (1.23, 1.35101)),
        # as far as the decoder's first token, 1.26101; again through router and server, 0.13, eight tokens, ten steps
        (HandOffFlow.LAND, (1.39901, 1.49901)),
        # 232 tokens of the last chunk instead of one
        (HandOffFlow.RECOMPUTE, (1.492, 1.592)),
    ],
)
def test_every_pass_through_router_and_server_is_paid(flow: HandOffFlow, times: tuple[float, float]) -> None:
    system = dataclasses.replace(_disaggregated(flow), frontend=_PASSES)
    assert _tokens(simulate(system, _arrivals(0.0))) == [times]


def test_colocated_request_passes_once() -> None:
    outcome = simulate(dataclasses.replace(_colocated(), frontend=_PASSES), _arrivals(0.0))
    assert _tokens(outcome) == [(1.13, 1.23)]


def test_hand_off_pays_copy_wire_and_copy() -> None:
    """1.1 with the sender's copy; 0.1 on the wire, 0.05 fixed; a token, the receiver's copy of 0.2, and nine steps."""
    costly = _disaggregated(
        store_seconds_per_token=1e-4,
        transfer_seconds_per_token=1e-4,
        transfer_fixed_seconds=0.05,
        retrieve_seconds_per_token=2e-4,
    )
    assert _tokens(simulate(costly, _arrivals(0.0))) == [(1.1, 1.541)]


def test_busy_prefiller_without_graphs_holds_a_hand_off_until_its_next_step_has_ended() -> None:
    held = _disaggregated(held_by_next_step=True)
    assert _tokens(simulate(held, _arrivals(0.0)))[0][0] == 1.0
    assert [first for first, _ in _tokens(simulate(held, _arrivals(0.0, 0.5)))] == [2.0, 2.0]


def test_buffer_is_given_back_once_per_hand_off() -> None:
    """The decoder takes five seconds to retrieve each prompt; only one has room, so the next prefill waits for that."""
    slow = _disaggregated(HandOffFlow.LAND, buffer_chunks=4, retrieve_seconds_per_token=5e-3)
    outcome = simulate(
        dataclasses.replace(slow, buffer_wait_seconds=math.inf), _arrivals(0.0, 0.0, 0.0, answer=2)
    )
    landed = [first for first, _ in _tokens(outcome)]
    assert [later - earlier for earlier, later in itertools.pairwise(landed)] == pytest.approx([6.001] * 2)


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


def test_prompt_that_gave_up_gives_no_room_back() -> None:
    """The first holds the buffer until it is retrieved, after six seconds: the third finds as little as the second."""
    impatient = dataclasses.replace(
        _disaggregated(buffer_chunks=4, retrieve_seconds_per_token=5e-3), buffer_wait_seconds=0.25
    )
    outcome = simulate(impatient, _arrivals(0.0, 0.0, 1.5))
    assert [request.disaggregated for request in outcome.requests] == [True, False, False]


def test_the_router_waits_for_room_as_long_as_the_planner_says() -> None:
    assert Timeouts().buffer_wait_seconds == ROUTER_BUFFER_WAIT_SECONDS


def test_prompt_larger_than_the_buffer_and_answer_of_one_token_are_decoded_directly() -> None:
    small = simulate(_disaggregated(buffer_chunks=3), _arrivals(0.0))
    single = simulate(_disaggregated(), _arrivals(0.0, answer=1))
    assert not small.requests[0].disaggregated
    assert small.requests[0].first_token == 1.0  # it does not wait for room first
    assert simulate(_disaggregated(buffer_chunks=4), _arrivals(0.0, answer=2)).requests[0].disaggregated
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


@pytest.mark.parametrize(
    ("flow", "prompt", "first_token"),
    [
        (HandOffFlow.LAND, 1008, 1.008 + 1 / 1000 + 16 / 1000),
        (HandOffFlow.LAND, 1009, 1.009 + 1 / 1000 + 1 / 1000),
        (HandOffFlow.RECOMPUTE, 1024, 1.024 + 256 / 1000),
        (HandOffFlow.RECOMPUTE, 1025, 1.025 + 1 / 1000),
    ],
)
def test_prompt_of_whole_blocks_has_its_last_one_computed_again(
    flow: HandOffFlow, prompt: int, first_token: float
) -> None:
    found = simulate(_disaggregated(flow), _arrivals(0.0, prompt=prompt)).requests[0].first_token
    assert found == pytest.approx(first_token)


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


def test_benchmark_ends_with_the_answer_that_it_waits_for() -> None:
    loop = ClosedLoop(
        concurrency=1,
        requests=1000,
        lengths=FixedLengths(input_tokens=100, output_tokens=11),
        stop_after=10,
        stop_on_whole_seconds=False,
    )
    outcome = simulate(_colocated(), loop)
    assert (len(outcome.requests), outcome.dropped) == (10, 1)  # the next one was issued at that moment
    assert outcome.seconds == pytest.approx(2.0)


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
