"""The event model: a workload runs through a system of engines."""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from hyperpod_dpd.planner.engine import Engine, Sequence
from hyperpod_dpd.planner.system import Disaggregated, EngineSpec, HandOffFlow, System
from hyperpod_dpd.planner.times import RequestTimes
from hyperpod_dpd.planner.unplannable import UnplannableError
from hyperpod_dpd.planner.workload import ClosedLoop, Lengths, Workload

_BLOCK_TOKENS = 16
"""vLLM's prefix cache works in blocks of this size."""


class PromptTooLongError(UnplannableError):
    """A request cannot be served by any engine of the system, however long it waits."""


@dataclass(slots=True, eq=False, kw_only=True)
class SimulatedRequest(RequestTimes):
    """A request of the event model."""

    disaggregated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that happened."""

    requests: tuple[SimulatedRequest, ...]
    """Finished requests in the order in which they were issued."""

    dropped: int
    """Requests in flight when the benchmark stopped."""

    seconds: float
    """From the first issue to the end of the measurement."""

    prefill_busy_share: float
    """Share of the time in which the prefillers worked; NaN without any."""

    decode_busy_share: float
    """Share of the time in which decoders or colocated workers worked."""

    preemptions: int
    """Sequences that lost their KV cache to others and were computed again."""


def simulate(system: System, workload: Workload, *, prefix_hit_share: float = 0.0) -> Outcome:
    """Run `workload` through `system`.

    Args:
        system: engines and what lies between them.
        workload: closed loop, Poisson arrivals or a trace.
        prefix_hit_share: share of every prompt that the prefix cache of the engine that computes it already holds.

    Raises:
        PromptTooLongError: a request does not fit into an engine at all.
    """
    return _Simulation(system, workload, prefix_hit_share).run()


@dataclass(slots=True, eq=False)
class _Worker:
    engine: Engine
    frontend_free: float = 0.0
    wire_free: float = 0.0
    buffer_free: int = 0
    assigned: int = 0
    """Requests on their way to it or in it."""


@dataclass(slots=True, eq=False)
class _Flight:
    """One request on its way."""

    number: int
    times: SimulatedRequest
    decoder: _Worker
    prefiller: _Worker | None = None
    chunks: int = 0
    waits: bool = False
    """Whether it found no room in a buffer."""


class _Simulation:
    def __init__(self, system: System, workload: Workload, prefix_hit_share: float) -> None:
        self._workload = workload
        self._hits = prefix_hit_share
        self._system = system
        self._frontend = system.frontend
        self._prefillers: list[_Worker] = []
        if isinstance(system, Disaggregated):
            self._prefillers = _workers("prefill", system.prefill, system.prefillers, 0)
            self._decoders = _workers("decode", system.decode, system.decoders, system.hand_off.buffer_chunks)
        else:
            self._decoders = _workers("colocated", system.engine, system.workers, 0)
        self._workers = {worker.engine.name: worker for worker in (*self._prefillers, *self._decoders)}
        self._queue: list[tuple[float, int, Callable[[float], None]]] = []
        self._sequence = 0
        self._flights: list[_Flight] = []
        self._pending: deque[_Flight] = deque()
        """Requests that wait for room in a decoder's PD buffer."""
        self._finished = 0
        self._last_finish = 0.0
        self._lengths: Iterator[Lengths] = iter(())
        self._closed: ClosedLoop | None = None
        self._stop_at = math.inf

    def run(self) -> Outcome:
        workload = self._workload
        if isinstance(workload, ClosedLoop):
            self._closed = workload
            self._lengths = workload.draw()
            for lengths in islice(self._lengths, workload.concurrency):
                self._push(0.0, partial(self._issue, lengths))
        else:
            for request in workload.requests:
                lengths = Lengths(input_tokens=request.input_tokens, output_tokens=request.output_tokens)
                self._push(request.arrival_seconds, partial(self._issue, lengths))
        now = start = self._queue[0][0]
        while self._queue:
            at, _, happen = heapq.heappop(self._queue)
            if at > self._stop_at:
                now = self._stop_at
                break
            happen(at)
            # what is still in the queue after the last request has nothing to do any more
            now = max(now, self._last_finish)
        return self._outcome(now - start)

    # -- events -----------------------------------------------------------------------------------------------------

    def _push(self, at: float, happen: Callable[[float], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (at, self._sequence, happen))

    def _issue(self, lengths: Lengths, now: float) -> None:
        times = SimulatedRequest(
            input_tokens=lengths.input_tokens, output_tokens=lengths.output_tokens, issued=now
        )
        self._refuse_unless_servable(times)
        system = self._system
        decoder = min(self._decoders, key=lambda worker: worker.assigned)
        flight = _Flight(len(self._flights), times, decoder)
        self._flights.append(flight)
        now += self._frontend.router_seconds
        if isinstance(system, Disaggregated) and _eligible(times, system):
            times.disaggregated = True
            flight.chunks = _chunks(times, system)
            self._dispatch(flight, now)
            return
        flight.decoder.assigned += 1
        self._send(flight.decoder, self._whole(flight), now)

    def _dispatch(self, flight: _Flight, now: float) -> None:
        """Reserve room in a decoder's buffer, then send the prompt to the prefiller with the least to do."""
        system = self._system
        assert isinstance(system, Disaggregated)
        decoder = min(
            self._decoders, key=lambda worker: (worker.buffer_free < flight.chunks, worker.assigned)
        )
        if decoder.buffer_free < flight.chunks:
            if not flight.waits and math.isfinite(system.buffer_wait_seconds):
                flight.waits = True
                self._push(now + system.buffer_wait_seconds, partial(self._give_up_waiting, flight))
            self._pending.append(flight)
            return
        decoder.buffer_free -= flight.chunks
        decoder.assigned += 1
        flight.decoder = decoder
        flight.prefiller = min(
            self._prefillers, key=lambda worker: (worker.engine.queued_tokens, worker.assigned)
        )
        flight.prefiller.assigned += 1
        self._send(flight.prefiller, self._prompt_only(flight), now)

    def _give_up_waiting(self, flight: _Flight, now: float) -> None:
        """Let a decoder compute a prompt for which no buffer had room in time."""
        if flight not in self._pending:
            return
        self._pending.remove(flight)
        flight.times.disaggregated = False
        flight.chunks = 0
        flight.decoder = min(self._decoders, key=lambda worker: worker.assigned)
        flight.decoder.assigned += 1
        self._send(flight.decoder, self._whole(flight), now)

    def _send(self, worker: _Worker, sequence: Sequence, now: float) -> None:
        frontend = self._frontend
        begin = max(now, worker.frontend_free)
        worker.frontend_free = (
            begin + frontend.request_seconds + sequence.prompt_tokens * frontend.request_seconds_per_token
        )
        self._push(worker.frontend_free, partial(self._arrive, worker, sequence))

    def _arrive(self, worker: _Worker, sequence: Sequence, now: float) -> None:
        ends = worker.engine.arrive(sequence, now)
        if ends is not None:
            self._push(ends, partial(self._work, worker, worker.engine.version))

    def _work(self, worker: _Worker, version: int, now: float) -> None:
        engine = worker.engine
        if version != engine.version:
            return
        first, finished, ends = engine.complete(now)
        if ends is not None:
            self._push(ends, partial(self._work, worker, engine.version))
        prefills = worker in self._prefillers
        for sequence in first:
            flight = self._flights[sequence.request]
            if prefills:
                self._hand_over_when_free(flight, now, ends)
            elif sequence.lands_only:
                self._release(flight, now)
                self._send(flight.decoder, self._after_landing(flight), now + self._frontend.router_seconds)
            else:
                self._first_token(flight, now)
        if not prefills:
            for sequence in finished:
                if not sequence.lands_only:
                    self._finish(self._flights[sequence.request], now)

    def _hand_over_when_free(self, flight: _Flight, now: float, next_step_ends: float | None) -> None:
        system = self._system
        assert isinstance(system, Disaggregated)
        if system.hand_off.held_by_next_step and next_step_ends is not None:
            self._push(next_step_ends, partial(self._hand_over, flight))
        else:
            self._hand_over(flight, now)

    def _hand_over(self, flight: _Flight, now: float) -> None:
        system = self._system
        assert isinstance(system, Disaggregated)
        prefiller = flight.prefiller
        assert prefiller is not None
        prefiller.assigned -= 1
        hand_off = system.hand_off
        times = flight.times
        if hand_off.flow is HandOffFlow.CONTINUE:
            times.first_token = now + self._frontend.router_seconds
        begin = max(now, prefiller.wire_free)
        # chunks of earlier steps were on the wire while later ones were computed
        tokens = min(times.input_tokens, system.prefill.limits.max_num_batched_tokens)
        wire = 0.0 if hand_off.inline else tokens * hand_off.transfer_seconds_per_token
        prefiller.wire_free = begin + wire
        landed = prefiller.wire_free + hand_off.transfer_fixed_seconds
        self._push(landed + self._frontend.router_seconds, partial(self._landed, flight))

    def _landed(self, flight: _Flight, now: float) -> None:
        self._send(flight.decoder, self._handed_over(flight), now)

    def _first_token(self, flight: _Flight, now: float) -> None:
        if flight.chunks:
            self._release(flight, now)
        if math.isnan(flight.times.first_token):
            flight.times.first_token = now

    def _release(self, flight: _Flight, now: float) -> None:
        """Give the chunks back: the decoder has retrieved them."""
        flight.decoder.buffer_free += flight.chunks
        flight.chunks = 0
        waiting, self._pending = self._pending, deque()
        while waiting:
            self._dispatch(waiting.popleft(), now)
            if self._pending:
                self._pending.extend(waiting)
                return

    def _finish(self, flight: _Flight, now: float) -> None:
        flight.times.finished = now
        self._last_finish = now
        flight.decoder.assigned -= 1
        self._finished += 1
        loop = self._closed
        if loop is None:
            return
        if loop.stop_after is not None and self._finished == loop.stop_after:
            self._stop_at = math.ceil(now) if loop.stop_on_whole_seconds else now
        for lengths in islice(self._lengths, 1):
            self._push(now, partial(self._issue, lengths))

    # -- sequences --------------------------------------------------------------------------------------------------

    def _whole(self, flight: _Flight) -> Sequence:
        times = flight.times
        return Sequence(
            request=flight.number,
            prompt_tokens=times.input_tokens,
            output_tokens=times.output_tokens,
            cached_tokens=self._cached(times.input_tokens),
        )

    def _prompt_only(self, flight: _Flight) -> Sequence:
        system = self._system
        assert isinstance(system, Disaggregated)
        hand_off = system.hand_off
        tokens = flight.times.input_tokens
        per_token = hand_off.store_seconds_per_token
        if hand_off.inline:
            per_token += hand_off.transfer_seconds_per_token
        return Sequence(
            request=flight.number,
            prompt_tokens=tokens,
            output_tokens=1,
            cached_tokens=self._cached(tokens),
            seconds_per_prefill_token=per_token,
            admission_seconds=hand_off.serial_seconds,
        )

    def _handed_over(self, flight: _Flight) -> Sequence:
        system = self._system
        assert isinstance(system, Disaggregated)
        hand_off = system.hand_off
        times = flight.times
        retrieve_seconds = times.input_tokens * hand_off.retrieve_seconds_per_token
        if hand_off.flow is HandOffFlow.RECOMPUTE:
            unit = hand_off.unit_tokens
            return Sequence(
                request=flight.number,
                prompt_tokens=times.input_tokens,
                output_tokens=times.output_tokens,
                cached_tokens=(times.input_tokens - 1) // unit * unit,
                admission_seconds=retrieve_seconds,
            )
        lands_only = hand_off.flow is HandOffFlow.LAND
        # one more token than was handed over, so that the whole prompt matches
        return Sequence(
            request=flight.number,
            prompt_tokens=times.input_tokens + 1,
            output_tokens=1 if lands_only else times.output_tokens - 1,
            cached_tokens=times.input_tokens,
            admission_seconds=retrieve_seconds,
            lands_only=lands_only,
        )

    def _after_landing(self, flight: _Flight) -> Sequence:
        times = flight.times
        return Sequence(
            request=flight.number,
            prompt_tokens=times.input_tokens,
            output_tokens=times.output_tokens,
            cached_tokens=(times.input_tokens - 1) // _BLOCK_TOKENS * _BLOCK_TOKENS,
        )

    def _cached(self, prompt_tokens: int) -> int:
        hit = int(prompt_tokens * self._hits) // _BLOCK_TOKENS * _BLOCK_TOKENS
        return min(hit, (prompt_tokens - 1) // _BLOCK_TOKENS * _BLOCK_TOKENS)

    # -- ends -------------------------------------------------------------------------------------------------------

    def _refuse_unless_servable(self, times: RequestTimes) -> None:
        needed = times.input_tokens + times.output_tokens
        for worker in self._workers.values():
            room = worker.engine.limits.kv_tokens
            if needed > room:
                raise PromptTooLongError(
                    f"a request of {times.input_tokens:,} + {times.output_tokens:,} tokens does not fit into the "
                    f"{room:,} tokens of KV cache of a {worker.engine.name} worker"
                )

    def _outcome(self, seconds: float) -> Outcome:
        done = tuple(flight.times for flight in self._flights if not math.isnan(flight.times.finished))
        return Outcome(
            requests=done,
            dropped=len(self._flights) - len(done),
            seconds=seconds,
            prefill_busy_share=_busy_share(self._prefillers, seconds),
            decode_busy_share=_busy_share(self._decoders, seconds),
            preemptions=sum(worker.engine.preemptions for worker in self._workers.values()),
        )


def _workers(role: str, spec: EngineSpec, count: int, buffer_chunks: int) -> list[_Worker]:
    return [
        _Worker(Engine(f"{role}-{index}", spec.times, spec.limits), buffer_free=buffer_chunks)
        for index in range(count)
    ]


def _eligible(times: RequestTimes, system: Disaggregated) -> bool:
    """As the router decides: long enough, more than one token asked for, and some buffer holds the whole prompt."""
    return (
        times.input_tokens >= system.threshold_tokens
        and times.output_tokens > 1
        and _chunks(times, system) <= system.hand_off.buffer_chunks
    )


def _chunks(times: RequestTimes, system: Disaggregated) -> int:
    return -(-times.input_tokens // system.hand_off.chunk_tokens)


def _busy_share(workers: list[_Worker], seconds: float) -> float:
    if not workers or seconds <= 0:
        return math.nan
    return sum(worker.engine.busy_seconds for worker in workers) / (seconds * len(workers))
