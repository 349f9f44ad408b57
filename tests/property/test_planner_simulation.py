"""Laws that every run of the event model obeys, whatever arrives."""

import dataclasses
import math
import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperpod_dpd.planner.engine import EngineLimits
from hyperpod_dpd.planner.simulation import Outcome, simulate
from hyperpod_dpd.planner.system import (
    Colocated,
    Disaggregated,
    EngineSpec,
    Frontend,
    HandOff,
    HandOffFlow,
    System,
)
from hyperpod_dpd.planner.workload import ClosedLoop, Lengths, OpenLoop, TimedRequest
from tools.naive_engine import run_closed_loop


@dataclass(frozen=True)
class LinearTimes:
    """Step times that can be scaled."""

    fixed: float = 7e-3
    per_token: float = 30e-6
    per_pair: float = 1e-9
    per_sequence: float = 1e-5
    seconds_per_cached_token: float = 1e-8

    def decode_seconds(self, sequences: int) -> float:
        return self.fixed + sequences * self.per_sequence

    def mixed_seconds(
        self, prefill_tokens: int, attended_pairs: float, sequences: int, sampled: int
    ) -> float:
        tokens = prefill_tokens + sequences
        return (
            max(self.fixed, tokens * self.per_token)
            + attended_pairs * self.per_pair
            + sampled * self.per_sequence
        )

    def scaled(self, factor: float) -> "LinearTimes":
        return LinearTimes(*(getattr(self, field.name) * factor for field in dataclasses.fields(self)))


@dataclass(frozen=True)
class Listed:
    """Lengths in a given order."""

    lengths: tuple[tuple[int, int], ...]

    def draw(self, random_source: random.Random) -> Lengths:
        position = int(random_source.random() * len(self.lengths))
        prompt, answer = self.lengths[position]
        return Lengths(input_tokens=prompt, output_tokens=answer)


LENGTHS = st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 400)), min_size=1, max_size=20).map(tuple)
LIMITS = st.builds(
    EngineLimits,
    max_num_batched_tokens=st.sampled_from([512, 2048, 8192]),
    max_num_seqs=st.integers(1, 64),
    kv_tokens=st.integers(12_000, 400_000),
    schedules_ahead=st.booleans(),
)
FRONTEND = Frontend(request_seconds=5e-3, request_seconds_per_token=1e-7, router_seconds=2e-3)


def _hand_off(flow: HandOffFlow, *, inline: bool = False, wire: float = 1e-6, chunks: int = 200) -> HandOff:
    return HandOff(
        flow=flow,
        store_seconds_per_token=2e-6,
        transfer_fixed_seconds=2e-3,
        transfer_seconds_per_token=wire,
        retrieve_seconds_per_token=4e-6,
        inline=inline,
        serial_seconds=0.0,
        unit_tokens=256,
        chunk_tokens=256,
        buffer_chunks=chunks,
    )


@st.composite
def systems(draw: st.DrawFn) -> System:
    engine = EngineSpec(times=LinearTimes(), limits=draw(LIMITS))
    if draw(st.booleans()):
        return Colocated(engine=engine, workers=draw(st.integers(1, 3)), frontend=FRONTEND)
    return Disaggregated(
        prefill=EngineSpec(times=LinearTimes(), limits=draw(LIMITS)),
        decode=engine,
        prefillers=draw(st.integers(1, 3)),
        decoders=draw(st.integers(1, 3)),
        threshold_tokens=draw(st.sampled_from([0, 2000, 10**9])),
        hand_off=_hand_off(
            draw(st.sampled_from(HandOffFlow)), inline=draw(st.booleans()), chunks=draw(st.integers(1, 300))
        ),
        frontend=FRONTEND,
    )


@st.composite
def closed_loops(draw: st.DrawFn) -> ClosedLoop:
    return ClosedLoop(
        concurrency=draw(st.integers(1, 40)),
        requests=draw(st.integers(1, 80)),
        lengths=Listed(draw(LENGTHS)),
        seed=draw(st.integers(0, 1000)),
    )


def _times(outcome: Outcome) -> list[tuple[float, float, float]]:
    return [(request.issued, request.first_token, request.finished) for request in outcome.requests]


@given(system=systems(), loop=closed_loops(), hits=st.floats(0, 0.99))
@settings(deadline=None)
def test_every_request_is_answered_in_order_of_cause_and_effect(
    system: System, loop: ClosedLoop, hits: float
) -> None:
    outcome = simulate(system, loop, prefix_hit_share=hits)
    assert len(outcome.requests) == loop.requests
    assert outcome.dropped == 0
    for request in outcome.requests:
        assert request.issued < request.first_token <= request.finished <= outcome.seconds + 1e-9
        assert (request.first_token < request.finished) == (request.output_tokens > 1)


@given(system=systems(), loop=closed_loops())
@settings(deadline=None)
def test_littles_law_holds_while_all_users_are_busy(system: System, loop: ClosedLoop) -> None:
    """Users never think, so as many requests are in the system as there are users until none is left to issue."""
    outcome = simulate(system, loop)
    users = min(loop.concurrency, loop.requests)
    last_issue = max(request.issued for request in outcome.requests)
    in_system_seconds = sum(request.e2e for request in outcome.requests)
    after_last_issue = sum(max(0.0, request.finished - last_issue) for request in outcome.requests)
    assert in_system_seconds - after_last_issue == pytest.approx(users * last_issue, rel=1e-9, abs=1e-9)
    assert outcome.decode_busy_share <= 1 + 1e-9


@given(limits=LIMITS, lengths=LENGTHS, workers=st.integers(1, 3), loop=closed_loops())
@settings(deadline=None)
def test_disaggregated_serving_equals_colocated_when_nothing_is_routed(
    limits: EngineLimits, lengths: tuple[tuple[int, int], ...], workers: int, loop: ClosedLoop
) -> None:
    engine = EngineSpec(times=LinearTimes(), limits=limits)
    colocated = simulate(Colocated(engine=engine, workers=workers, frontend=FRONTEND), loop)
    unrouted = simulate(
        Disaggregated(
            prefill=engine,
            decode=engine,
            prefillers=2,
            decoders=workers,
            threshold_tokens=10**9,
            hand_off=_hand_off(HandOffFlow.CONTINUE),
            frontend=FRONTEND,
        ),
        loop,
    )
    assert _times(unrouted) == _times(colocated)
    assert not any(request.disaggregated for request in unrouted.requests)


def _scaled(system: System, factor: float) -> System:
    def engine(spec: EngineSpec) -> EngineSpec:
        assert isinstance(spec.times, LinearTimes)
        return EngineSpec(times=spec.times.scaled(factor), limits=spec.limits)

    frontend = Frontend(
        request_seconds=system.frontend.request_seconds * factor,
        request_seconds_per_token=system.frontend.request_seconds_per_token * factor,
        router_seconds=system.frontend.router_seconds * factor,
    )
    if isinstance(system, Colocated):
        return Colocated(engine=engine(system.engine), workers=system.workers, frontend=frontend)
    hand_off = dataclasses.replace(
        system.hand_off,
        **{
            field.name: getattr(system.hand_off, field.name) * factor
            for field in dataclasses.fields(system.hand_off)
            if "seconds" in field.name
        },
    )
    return dataclasses.replace(
        system,
        prefill=engine(system.prefill),
        decode=engine(system.decode),
        hand_off=hand_off,
        frontend=frontend,
        buffer_wait_seconds=system.buffer_wait_seconds * factor,
    )


@given(system=systems(), loop=closed_loops(), power=st.integers(-6, 6))
@settings(deadline=None)
def test_a_slower_clock_changes_nothing_but_the_clock(system: System, loop: ClosedLoop, power: int) -> None:
    """Powers of two, so that no rounding reorders two events at the same time."""
    factor = 2.0**power
    plain, scaled = simulate(system, loop), simulate(_scaled(system, factor), loop)
    assert [tuple(at * factor for at in times) for times in _times(plain)] == _times(scaled)


@given(
    limits=LIMITS.map(lambda limits: dataclasses.replace(limits, kv_tokens=10**9)),
    lengths=st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 300)), min_size=1, max_size=40),
    concurrency=st.integers(1, 20),
)
@settings(max_examples=60, deadline=None)
def test_taking_many_steps_at_once_equals_taking_them_one_by_one(
    limits: EngineLimits, lengths: list[tuple[int, int]], concurrency: int
) -> None:
    naive = run_closed_loop(LinearTimes(), limits, lengths, concurrency, request_seconds=5e-3)
    engine = EngineSpec(times=LinearTimes(), limits=limits)
    system = Colocated(
        engine=engine,
        workers=1,
        frontend=Frontend(request_seconds=5e-3, request_seconds_per_token=0.0, router_seconds=0.0),
    )
    drawn = iter(lengths)

    class InOrder:
        def draw(self, random_source: random.Random) -> Lengths:
            prompt, answer = next(drawn)
            return Lengths(input_tokens=prompt, output_tokens=answer)

    outcome = simulate(system, ClosedLoop(concurrency=concurrency, requests=len(lengths), lengths=InOrder()))
    for expected, found in zip(naive, outcome.requests, strict=True):
        assert found.first_token == pytest.approx(expected.first, rel=1e-9)
        assert found.finished == pytest.approx(expected.finished, rel=1e-9)


def _burst(requests: int, every_seconds: float, prompt: int = 4096, answer: int = 128) -> OpenLoop:
    return OpenLoop(
        requests=tuple(
            TimedRequest(arrival_seconds=number * every_seconds, input_tokens=prompt, output_tokens=answer)
            for number in range(requests)
        )
    )


def _mean_e2e(system: System, workload: OpenLoop) -> float:
    outcome = simulate(system, workload)
    return math.fsum(request.e2e for request in outcome.requests) / len(outcome.requests)


@given(system=systems(), every=st.floats(0.05, 1.0), factor=st.floats(2.0, 8.0))
@settings(deadline=None)
def test_more_load_is_not_faster(system: System, every: float, factor: float) -> None:
    """Batching makes single arrivals luckier or unluckier by a step, hence the margin of two steps."""
    light = _mean_e2e(system, _burst(30, every * factor))
    heavy = _mean_e2e(system, _burst(30, every))
    assert heavy >= light * 0.97 - 0.02


@given(
    flow=st.sampled_from(HandOffFlow),
    inline=st.booleans(),
    every=st.floats(0.02, 0.5),
    wire=st.floats(1e-7, 1e-4),
)
@settings(deadline=None)
def test_more_bandwidth_is_not_slower(flow: HandOffFlow, inline: bool, every: float, wire: float) -> None:
    engine = EngineSpec(
        times=LinearTimes(),
        limits=EngineLimits(max_num_batched_tokens=8192, max_num_seqs=64, kv_tokens=10**6),
    )

    def mean(seconds_per_token: float) -> float:
        system = Disaggregated(
            prefill=engine,
            decode=engine,
            prefillers=1,
            decoders=1,
            threshold_tokens=0,
            hand_off=_hand_off(flow, inline=inline, wire=seconds_per_token),
            frontend=FRONTEND,
        )
        return _mean_e2e(system, _burst(30, every))

    assert mean(wire / 4) <= mean(wire) * 1.03 + 0.02
