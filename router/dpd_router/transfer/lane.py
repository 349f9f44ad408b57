"""The first half of every `lmcache-pd` hand-off: room, prefill, notifications."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Container
from typing import Any, Final

import msgspec

from dpd_router.books import Books, chunks_of
from dpd_router.config import Settings
from dpd_router.custodian import Custodian
from dpd_router.decision import Disaggregate
from dpd_router.eligibility import Reason
from dpd_router.generation import Generation, Json, Kind
from dpd_router.handoff import Handoff, receiver_ports
from dpd_router.health import HealthMonitor
from dpd_router.leaks import Leaks
from dpd_router.metrics import Metrics
from dpd_router.pairs import Pairs
from dpd_router.pool import Pool, Worker, least_loaded
from dpd_router.transfer.base import FallbackError, NotTakenError, prefill_reason
from dpd_router.transfer.decoding import Choice
from dpd_router.transfer.prefill import Prefill
from dpd_router.upstream import JSON_HEADERS, UpstreamError, read_answer

_TRACE_HEADERS: Final = frozenset({"traceparent", "tracestate", "baggage"})


class _Returned(msgspec.Struct):
    first_tok: int | None = None


class _PrefillAnswer(msgspec.Struct):
    choices: list[Choice]
    model: str = ""
    kv_transfer_params: _Returned | None = None


_decode_prefill = msgspec.json.Decoder(_PrefillAnswer).decode


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FirstToken:
    """What a prefill gave.

    Attributes:
        finish_reason: `length` when the answer goes on.
        answered_at: time of the answer on `time.perf_counter`.
    """

    token: int
    text: str
    finish_reason: str
    stop_reason: int | str | None
    model: str
    answered_at: float


@dataclasses.dataclass(slots=True, kw_only=True)
class Shipment:
    """A hand-off whose prefill runs."""

    handoff: Handoff
    prefill: "asyncio.Task[FirstToken]"


class Lane:
    """Begins hand-offs."""

    def __init__(
        self,
        *,
        settings: Settings,
        pool: Pool,
        pairs: Pairs,
        leaks: Leaks,
        books: Books,
        custodian: Custodian,
        prefills: Prefill,
        health: HealthMonitor,
        metrics: Metrics,
    ) -> None:
        self._buffers = settings.buffers
        self._timeouts = settings.timeouts
        self._pool = pool
        self._pairs = pairs
        self._leaks = leaks
        self._books = books
        self._custodian = custodian
        self._prefills = prefills
        self._health = health
        self._metrics = metrics

    @contextlib.asynccontextmanager
    async def shipment(
        self, generation: Generation, decision: Disaggregate, sampling: Json
    ) -> AsyncIterator[Shipment]:
        """Reserve room and prefill, on another prefiller where one cannot be reached.

        The prefill has answered when the block begins. A hand-off that is not settled when the block
        ends is the custodian's.

        Raises:
            NotTakenError: there is no room or no pair.
            FallbackError: no prefiller answered.
        """
        shipment = await self._ship(generation, decision, sampling)
        try:
            yield shipment
        finally:
            self._custodian.leave(shipment.handoff, shipment.prefill)

    async def _ship(self, generation: Generation, decision: Disaggregate, sampling: Json) -> Shipment:
        unreachable: set[Worker] = set()
        while True:
            handoff = await self._reserve(generation, decision, unreachable)
            prefill = self._custodian.start(handoff, self._prefill(generation, handoff, sampling))
            try:
                await asyncio.shield(prefill)
            except UpstreamError as error:
                self._custodian.leave(handoff, prefill)
                reason = prefill_reason(error)
                self._custodian.report_failure(handoff, reason, pair=False)
                unreachable.add(handoff.prefiller)
                if not self._prefills.another(error, tried=unreachable):
                    raise FallbackError(reason) from error
            except BaseException:
                self._custodian.leave(handoff, prefill)
                raise
            else:
                return Shipment(handoff=handoff, prefill=prefill)

    async def _reserve(
        self, generation: Generation, decision: Disaggregate, exclude: Container[Worker]
    ) -> Handoff:
        deadline = asyncio.get_running_loop().time() + self._timeouts.buffer_wait_seconds
        while True:
            outcome = self._try_reserve(generation, decision, exclude)
            if isinstance(outcome, Handoff):
                return outcome
            if outcome is not Reason.NO_BUFFER_ROOM:
                raise NotTakenError(outcome)
            try:
                async with asyncio.timeout_at(deadline):
                    await self._books.room()
            except TimeoutError:
                raise NotTakenError(outcome) from None

    def _try_reserve(
        self, generation: Generation, decision: Disaggregate, exclude: Container[Worker]
    ) -> Handoff | Reason:
        chunks = chunks_of(decision.tokens, self._buffers.chunk_tokens)
        decoders = self._pool.usable_decoders()
        prefillers = [worker for worker in self._pool.usable_prefillers() if worker not in exclude]
        if not decoders:
            return Reason.DECODER_GONE
        if not prefillers:
            return Reason.NO_PREFILLER
        fitting = [worker for worker in decoders if self._books.capacity(worker.key) >= chunks]
        if not fitting:
            return Reason.EXCEEDS_BUFFER
        reason = Reason.NO_BUFFER_ROOM
        for decoder in self._pool.by_preference(fitting, generation.affinity_key):
            if self._books.free(decoder.key) < chunks:
                continue
            usable = [worker for worker in prefillers if self._pairs.usable(worker, decoder)]
            if not usable:
                leaking = self._leaks.leaking(decoder.key)
                reason = Reason.BUFFER_LEAKED if leaking else Reason.PAIR_BROKEN
                continue
            prefiller = least_loaded(usable)
            handoff = self._custodian.reserve(
                generation.model,
                decision.ids,
                prefiller,
                decoder,
                client_salt=generation.body.get("cache_salt"),
            )
            assert handoff is not None  # the room was there, and nothing was awaited since
            return handoff
        return reason

    async def _prefill(self, generation: Generation, handoff: Handoff, sampling: Json) -> FirstToken:
        first = await self._prefills.run(
            handoff.prefiller,
            tokens=len(handoff.ids),
            path=Kind.COMPLETION,
            body=self._prefill_body(generation, handoff, sampling),
            headers=own_headers(generation, generation.request_id),
            read=_first_token,
        )
        handoff.first_token = first.token
        return first

    def _prefill_body(self, generation: Generation, handoff: Handoff, sampling: Json) -> Json:
        buffers = self._buffers
        ranks, epochs = buffers.tensor_parallel, buffers.port_epochs
        epoch = handoff.decoder.epoch or 0
        body: Json = {
            **sampling,
            "prompt": handoff.ids,
            # the completions endpoint reads the first; a gateway in front of a worker may read the second
            "max_tokens": 1,
            "max_completion_tokens": 1,
            "stream": False,
            "kv_transfer_params": {
                "ret_first_tok": True,
                "disagg_spec": {
                    "req_id": handoff.id,
                    "receiver_host": handoff.decoder.host,
                    "receiver_init_port": receiver_ports(buffers.init_port_base, ranks, epoch, epochs),
                    "receiver_alloc_port": receiver_ports(buffers.alloc_port_base, ranks, epoch, epochs),
                },
                **handoff.tag,
            },
        }
        if generation.model is not None:
            body["model"] = generation.model
        return body

    async def await_landing(self, shipment: Shipment) -> None:
        """Wait until every rank has written its part.

        Raises:
            FallbackError: notifications are missing, or the decoder is gone.
        """
        handoff = shipment.handoff
        answered_at = shipment.prefill.result().answered_at
        if not handoff.notified.is_set():
            await handoff.notified_or_settled(self._timeouts.notification_timeout_seconds)
        if not handoff.open:
            self._custodian.report_failure(handoff, Reason.DECODER_GONE, pair=False)
            raise FallbackError(Reason.DECODER_GONE)
        if not handoff.notified.is_set():
            self._metrics.notification_timeouts.inc()
            self._custodian.report_failure(handoff, Reason.NOTIFICATION_TIMEOUT)
            self._health.check_now(handoff.decoder)
            raise FallbackError(Reason.NOTIFICATION_TIMEOUT)
        self._metrics.kv_wait.observe(max(0.0, time.perf_counter() - answered_at))
        self._custodian.landed(handoff)


def own_headers(generation: Generation, request_id: str) -> dict[str, str]:
    """Return the headers of a request that the router makes itself, with the client's trace."""
    trace: dict[str, str] = {}
    for name, value in generation.headers.items():
        lowered = name.lower()
        if lowered in _TRACE_HEADERS:
            # a list may come in several lines
            trace[lowered] = f"{trace[lowered]}, {value}" if lowered in trace else value
    return {**JSON_HEADERS, **trace, "X-Request-Id": request_id}


def _first_token(answer: bytes) -> FirstToken:
    parsed = read_answer(_decode_prefill, answer)
    token = None if parsed.kv_transfer_params is None else parsed.kv_transfer_params.first_tok
    if token is None or not parsed.choices:
        raise UpstreamError("malformed")
    choice = parsed.choices[0]
    return FirstToken(
        token=token,
        text=choice.text,
        finish_reason=choice.finish_reason or "length",
        stop_reason=choice.stop_reason,
        model=parsed.model,
        answered_at=time.perf_counter(),
    )


def copied_fields(body: dict[str, Any], names: Container[str]) -> Json:
    """Return the named fields of a request that have a value."""
    return {name: value for name, value in body.items() if name in names and value is not None}
