"""Owns every hand-off until its chunks are free again, whatever happens to the request.

A hand-off that was prefilled and is never decoded occupies the decoder's buffer for ever; five of
them with 4,096 tokens fill 1 GiB. So a hand-off that its request leaves is drained here: the decoder
gets a one-token request that takes the cache, and the answer is thrown away.
"""

import asyncio
import collections
import contextlib
import dataclasses
import enum
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

import msgspec

from dpd_router.books import Books, chunks_of
from dpd_router.config import Buffers, Timeouts
from dpd_router.generation import encode_json
from dpd_router.handoff import Handoff, State, new_id, salt_for
from dpd_router.leaks import Leaks
from dpd_router.metrics import Metrics
from dpd_router.notifications import Notifications
from dpd_router.pairs import Pairs
from dpd_router.pool import Pool, Worker
from dpd_router.upstream import JSON_HEADERS, Upstream, UpstreamError, read_answer

log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS: Final = 0.5
# prompts of drained hand-offs that are kept in case their transfer was only slow: about six bytes a token
_REMEMBERED_DRY_BYTES: Final = 16 * 1024 * 1024


class Hit(enum.StrEnum):
    """What a decoder says about the cache that a hand-off brought."""

    FULL = "full"
    PARTIAL = "partial"
    MISS = "miss"
    UNREPORTED = "unreported"
    UNCHECKED = "unchecked"  # the answer ended before the decoder reports


class Details(msgspec.Struct):
    """Part of a worker's usage."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    """Usage as a worker reports it."""

    prompt_tokens: int = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: Details | None = None


def judge_hit(usage: Usage | None, expected_tokens: int) -> tuple[Hit, int]:
    """Return the verdict and the cached tokens that a decoder reports for a hand-off."""
    details = None if usage is None else usage.prompt_tokens_details
    if details is None or details.cached_tokens is None:
        return Hit.UNREPORTED, 0
    cached = details.cached_tokens
    if cached >= expected_tokens:
        return Hit.FULL, cached
    return (Hit.PARTIAL if cached > 0 else Hit.MISS), cached


class _TakeAnswer(msgspec.Struct):
    usage: Usage | None = None


_decode_take = msgspec.json.Decoder(_TakeAnswer).decode


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Dry:
    """A hand-off of which a drain found nothing, without its ids, and the prompt that drains it as JSON."""

    handoff: Handoff
    tokens: int
    prompt: bytes


class Custodian:
    """Creates hand-offs, settles them, drains the ones that are left."""

    def __init__(
        self,
        *,
        books: Books,
        leaks: Leaks,
        notifications: Notifications,
        upstream: Upstream,
        pool: Pool,
        pairs: Pairs,
        metrics: Metrics,
        buffers: Buffers,
        timeouts: Timeouts,
    ) -> None:
        self._books = books
        self._leaks = leaks
        self._notifications = notifications
        self._upstream = upstream
        self._pool = pool
        self._pairs = pairs
        self._metrics = metrics
        self._buffers = buffers
        self._timeouts = timeouts
        self._open: dict[str, Handoff] = {}
        self._consuming: dict[str, asyncio.Task[Any]] = {}
        self._dry: collections.OrderedDict[str, _Dry] = collections.OrderedDict()
        self._dry_bytes = 0
        # drains after late reports that run, and whether another report has come since the last of them began
        self._late_drains: dict[str, bool] = {}
        notifications.on_late.append(self._late)
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def handoffs(self) -> tuple[Handoff, ...]:
        """The hand-offs that are not settled."""
        return tuple(self._open.values())

    # the way of a hand-off that goes well

    def reserve(
        self,
        model: str | None,
        ids: Sequence[int],
        prefiller: Worker,
        decoder: Worker,
        *,
        client_salt: str | None = None,
    ) -> Handoff | None:
        """Reserve room for a prompt; None where there is none now."""
        handoff_id = new_id()
        chunks = chunks_of(len(ids), self._buffers.chunk_tokens)
        if not self._books.reserve(handoff_id, decoder.key, chunks):
            return None
        handoff = Handoff(
            id=handoff_id,
            model=model,
            prefiller=prefiller,
            decoder=decoder,
            decoder_incarnation=decoder.incarnation,
            ids=ids,
            salt=salt_for(handoff_id, client_salt),
            chunks=chunks,
            notified=self._notifications.expect(handoff_id, self._buffers.tensor_parallel),
            settled=asyncio.Event(),
        )
        self._open[handoff_id] = handoff
        decoder.handoffs += 1
        self._metrics.handoffs_open.set(len(self._open))
        self._pairs.trial(prefiller, decoder)
        return handoff

    def start(self, handoff: Handoff, prefill: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run the prefill as a task that a client's departure does not end.

        An aborted prefill may leave chunks that were already written, and LMCache 0.5.3 looks for
        them under the engine's id of the request instead of the hand-off's, so it frees none.
        """
        handoff.advance(State.PREFILLING)
        return self._spawn(prefill, f"prefill {handoff.id}")

    def landed(self, handoff: Handoff) -> bool:
        """Record that every rank has written; False where the decoder is gone meanwhile."""
        if not handoff.open:
            return False
        handoff.advance(State.LANDED)
        self._pairs.succeeded(handoff.prefiller, handoff.decoder)
        self._leaks.received(handoff)
        return True

    def consume(self, handoff: Handoff, attempt: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run the request that takes the cache as a task that a client's departure does not end.

        The attempt calls `consumed` once the decoder has answered with a token.
        """
        task = self._spawn(attempt, f"consume {handoff.id}")
        self._consuming[handoff.id] = task
        return task

    async def take(
        self, handoff: Handoff, prompt: list[int] | msgspec.Raw, headers: Mapping[str, str]
    ) -> Usage | None:
        """Have the decoder take the cache with a request of one token; return what it reports.

        Raises:
            UpstreamError: there was no answer.
        """
        body = handoff.consuming_request(prompt)
        with self._pool.busy(handoff.decoder):
            answer = await self._upstream.post(
                handoff.decoder, "/v1/completions", body, self._timeouts.drain_timeout_seconds, headers
            )
        return read_answer(_decode_take, answer).usage

    def consumed(self, handoff: Handoff) -> None:
        """Record that the decoder has taken the cache."""
        if handoff.open:
            self._settle(handoff, State.CONSUMED)

    def checked(self, handoff: Handoff, usage: Usage | None) -> Hit:
        """Judge how much of the cache a decoder has used; less than all is a failed hand-off."""
        hit, cached = judge_hit(usage, len(handoff.ids))
        self._metrics.hits.labels(hit).inc()
        if hit in {Hit.MISS, Hit.PARTIAL}:
            self.report_failure(handoff, "cache_" + hit)
            left = handoff.chunks - chunks_of(cached, self._buffers.chunk_tokens)
            self._books.suspect(handoff.decoder.key, handoff.decoder_incarnation, left)
            log.error(
                "decoder computed a prompt that was handed over",
                extra={"fields": {**_names(handoff), "tokens": len(handoff.ids), "cached_tokens": cached}},
            )
        return hit

    def unchecked(self) -> None:
        """Record a hand-off whose answer ended before its decoder could report."""
        self._metrics.hits.labels(Hit.UNCHECKED).inc()

    def check_later(self, handoff: Handoff, check: Coroutine[Any, Any, None]) -> None:
        """Run what is left to do for a consumed hand-off when its client has the whole answer."""
        self._spawn(check, f"check {handoff.id}")

    def report_failure(self, handoff: Handoff, reason: str, *, pair: bool = True) -> None:
        """Count a hand-off that did not serve its request, and say why: its client only saw a slow answer."""
        self._metrics.handoff_failures.labels(reason).inc()
        log.warning(
            "hand-off failed",
            extra={
                "fields": {
                    **_names(handoff),
                    "reason": reason,
                    "ranks_missing": self._notifications.missing(handoff.id),
                }
            },
        )
        if pair and handoff.decoder.incarnation == handoff.decoder_incarnation:
            self._pairs.failed(handoff.prefiller, handoff.decoder)

    # the other ways

    def release(self, handoff: Handoff) -> None:
        """Settle a hand-off of which nothing can have reached the decoder."""
        if handoff.open:
            self._settle(handoff, State.RELEASED)

    def decoder_gone(self, decoder: Worker) -> None:
        """Write off what earlier processes of a decoder held: their buffers are gone with them."""
        for handoff in list(self._open.values()):
            if handoff.decoder is decoder and handoff.decoder_incarnation != decoder.incarnation:
                self._settle(handoff, State.RELEASED if handoff.state is State.RESERVED else State.LOST)

    def leave(self, handoff: Handoff, prefill: asyncio.Task[Any] | None = None) -> None:
        """Take over a hand-off that its request is done with; nothing to do if it is settled."""
        if not handoff.open:
            return
        if handoff.state is State.RESERVED:
            self.release(handoff)
            return
        self._spawn(self._take_over(handoff, prefill), f"custody {handoff.id}")

    async def _take_over(self, handoff: Handoff, prefill: asyncio.Task[Any] | None) -> None:
        consuming = self._consuming.get(handoff.id)
        if consuming is not None:
            await _ended(consuming)
        if handoff.state is State.PREFILLING:
            await self._await_prefill(handoff, prefill)
        if handoff.open:
            await self._drain(handoff)

    async def _await_prefill(self, handoff: Handoff, prefill: asyncio.Task[Any] | None) -> None:
        """Wait until nothing can still be written, as far as the router can know."""
        if prefill is not None:
            await _ended(prefill)
            error = None if prefill.cancelled() else prefill.exception()
            if isinstance(error, UpstreamError) and (error.unsent or error.rejected):
                self.release(handoff)
                return
        await handoff.notified_or_settled(self._timeouts.drain_grace_seconds)
        if handoff.open and handoff.notified.is_set():
            handoff.advance(State.LANDED)

    async def _drain(self, handoff: Handoff) -> None:
        pause_seconds = _FIRST_RETRY_SECONDS
        for attempt in range(self._timeouts.drain_attempts):
            if attempt:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_seconds):
                        await handoff.settled.wait()
                pause_seconds *= 4
            if not handoff.open:
                return
            try:
                usage = await self._drain_once(handoff, encode_json(handoff.consuming_prompt))
            except UpstreamError as error:
                self._metrics.upstream_errors.labels(handoff.decoder.role, error.kind).inc()
                if error.kind == "refused":
                    self._pool.refused(handoff.decoder)
                continue
            self._drained(handoff, usage)
            return
        if handoff.open:
            self._metrics.drains.labels("failed").inc()
            log.error("hand-off could not be drained", extra={"fields": _names(handoff)})
            self._settle(handoff, State.LOST, leaked_chunks=handoff.chunks)

    async def _drain_once(self, handoff: Handoff, prompt: bytes) -> Usage | None:
        headers = {**JSON_HEADERS, "X-Request-Id": f"drain-{handoff.id}"}
        return await self.take(handoff, msgspec.Raw(prompt), headers)

    def _drained(self, handoff: Handoff, usage: Usage | None) -> None:
        if not handoff.open:
            return
        hit, cached = judge_hit(usage, len(handoff.ids))
        self._metrics.drains.labels("empty" if hit is Hit.MISS else "hit").inc()
        log.info(
            "hand-off drained", extra={"fields": {**_names(handoff), "cached_tokens": cached, "hit": hit}}
        )
        if handoff.state is State.LANDED and hit in {Hit.MISS, Hit.PARTIAL}:
            # it was written and did not match: what is left cannot be freed by any request
            left = handoff.chunks - chunks_of(cached, self._buffers.chunk_tokens)
            self._settle(handoff, State.LOST, leaked_chunks=left)
        else:
            if hit is Hit.MISS:
                self._remember_dry(handoff)
                if handoff.first_token is not None:
                    self._leaks.not_received(handoff)
            self._settle(handoff, State.DRAINED)

    # a transfer that allocates after its drain: the sender queues, and the receiver waits for room more than once

    def _remember_dry(self, handoff: Handoff) -> None:
        dry = _Dry(
            handoff=dataclasses.replace(handoff, ids=()),
            tokens=len(handoff.ids),
            prompt=encode_json(handoff.consuming_prompt),
        )
        self._dry[handoff.id] = dry
        self._dry_bytes += len(dry.prompt)
        while self._dry_bytes > _REMEMBERED_DRY_BYTES:
            self._forget_dry(next(iter(self._dry)))

    def _forget_dry(self, handoff_id: str) -> None:
        if (dry := self._dry.pop(handoff_id, None)) is not None:
            self._dry_bytes -= len(dry.prompt)

    def _late(self, handoff_id: str) -> None:
        """Drain again when a rank reports after a drain that found nothing."""
        if handoff_id in self._late_drains:
            self._late_drains[handoff_id] = True
            return
        dry = self._dry.get(handoff_id)
        if dry is not None and dry.handoff.decoder.incarnation == dry.handoff.decoder_incarnation:
            self._late_drains[handoff_id] = True
            self._spawn(self._drain_late(dry), f"late drain {handoff_id}")

    async def _drain_late(self, dry: _Dry) -> None:
        """Drain one after the other, so that the last begins after the last report and a flood of them is no flood."""
        handoff_id = dry.handoff.id
        try:
            while self._late_drains[handoff_id]:
                self._late_drains[handoff_id] = False
                await self._drain_late_once(dry)
        finally:
            del self._late_drains[handoff_id]

    async def _drain_late_once(self, dry: _Dry) -> None:
        handoff = dry.handoff
        try:
            usage = await self._drain_once(handoff, dry.prompt)
        except UpstreamError as error:
            self._metrics.upstream_errors.labels(handoff.decoder.role, error.kind).inc()
            self._write_off_late(handoff)
            return
        hit, cached = judge_hit(usage, dry.tokens)
        if hit is not Hit.MISS:
            self._forget_dry(handoff.id)
            self._leaks.received(handoff)
            self._metrics.drains.labels("late").inc()
            log.warning(
                "late transfer drained",
                extra={"fields": {**_names(handoff), "cached_tokens": cached, "hit": hit}},
            )

    def _write_off_late(self, handoff: Handoff) -> None:
        self._forget_dry(handoff.id)
        self._books.suspect(handoff.decoder.key, handoff.decoder_incarnation, handoff.chunks)
        self._metrics.drains.labels("failed").inc()
        log.error("late transfer could not be drained", extra={"fields": _names(handoff)})

    def _settle(self, handoff: Handoff, state: State, *, leaked_chunks: int = 0) -> None:
        handoff.advance(state)
        self._books.settle(handoff.id, leaked_chunks=leaked_chunks)
        self._notifications.forget(handoff.id)
        self._open.pop(handoff.id)
        handoff.decoder.handoffs -= 1
        self._consuming.pop(handoff.id, None)
        self._metrics.handoffs.labels(state).inc()
        self._metrics.handoffs_open.set(len(self._open))
        if state is State.LOST:
            log.warning(
                "hand-off lost", extra={"fields": {**_names(handoff), "leaked_chunks": leaked_chunks}}
            )

    # tasks

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if (
            not task.cancelled()
            and (error := task.exception()) is not None
            and not isinstance(error, UpstreamError)
        ):
            log.error(
                "task failed", extra={"fields": {"task": task.get_name(), "error": type(error).__name__}}
            )

    async def settle_all(self, timeout_seconds: float) -> int:
        """Wait until every hand-off is settled; return how many are not in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while self._tasks or self._open:
                    if self._tasks:
                        await asyncio.wait(set(self._tasks))
                    else:
                        await next(iter(self._open.values())).settled.wait()
        left = len(self._open)
        if left:
            log.error("hand-offs left behind at shutdown", extra={"fields": {"handoffs": left}})
        return left

    async def stop(self) -> None:
        """End every task."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _names(handoff: Handoff) -> dict[str, object]:
    return {
        "handoff": handoff.id,
        "prefiller": handoff.prefiller.key,
        "decoder": handoff.decoder.key,
        "chunks": handoff.chunks,
    }


async def _ended(task: asyncio.Task[Any]) -> None:
    """Wait for a task without taking its result or passing on a cancellation."""
    await asyncio.wait({task})
