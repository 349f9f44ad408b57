"""The owner of hand-offs on its own, with a decoder that answers what a test says."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from dpd_router.books import Books
from dpd_router.config import Buffers, HealthPolicy, Timeouts
from dpd_router.custodian import Custodian, Details, Hit, Usage, judge_hit
from dpd_router.handoff import Handoff, State
from dpd_router.leaks import EVIDENCE, Leaks
from dpd_router.metrics import Metrics
from dpd_router.notifications import Notifications
from dpd_router.pairs import Pairs
from dpd_router.pool import Pool, Role, Worker
from dpd_router.upstream import Upstream, UpstreamError
from tests.router.support import LIMIT_SECONDS


class FakeUpstream(Upstream):
    """Answers drains: with cached tokens, or with an error."""

    def __init__(self) -> None:
        super().__init__(Timeouts())
        self.answers: list[int | UpstreamError] = []
        self.bodies: list[Mapping[str, Any]] = []
        self.before: Any = None

    async def post(
        self, worker: Worker, path: str, body: Mapping[str, Any], timeout_seconds: float, headers: Mapping[str, str] = {}
    ) -> bytes:  # fmt: skip
        self.bodies.append(body)
        if self.before is not None:
            self.before()
        answer = self.answers.pop(0) if self.answers else len(json.loads(bytes(body["prompt"]))) - 1
        if isinstance(answer, UpstreamError):
            raise answer
        return json.dumps({"usage": {"prompt_tokens_details": {"cached_tokens": answer}}}).encode()


class Desk:
    """A custodian with everything around it."""

    def __init__(self, **timeouts: Any) -> None:
        self.metrics = Metrics()
        self.books = Books(self.metrics)
        self.pool = Pool(HealthPolicy(), self.metrics)
        self.pairs = Pairs(HealthPolicy(), self.metrics, port_epochs=8)
        self.notifications = Notifications(self.metrics)
        self.upstream = FakeUpstream()
        self.leaks = Leaks(self.books, self.metrics)
        self.custodian = Custodian(
            books=self.books, leaks=self.leaks, notifications=self.notifications, upstream=self.upstream, pool=self.pool, pairs=self.pairs,
            metrics=self.metrics, buffers=Buffers(decoder_buffer_chunks=8),
            timeouts=Timeouts(**{"drain_grace_seconds": 0.01, **timeouts}),
        )  # fmt: skip
        self.prefiller = self.pool.add(Role.PREFILL, "http://p:1")
        self.decoder = self.pool.add(Role.DECODE, "http://d:1")
        self.pool.passed(self.decoder, {"m": 1}, 0)
        self.books.open_account(self.decoder.key, 8, 0)
        self.pool.on_gone.append(self.custodian.decoder_gone)

    def handoff(self, tokens: int = 1000, model: str | None = "m") -> Handoff:
        made = self.custodian.reserve(model, list(range(tokens)), self.prefiller, self.decoder)
        assert made is not None
        return made

    def counted(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"dpd_router_{name}_total", labels)

    async def settled(self, state: State, handoff: Handoff) -> None:
        assert await self.custodian.settle_all(LIMIT_SECONDS) == 0
        assert handoff.state is state
        self.books.check()
        assert (self.books.open_entries, self.notifications.open) == (0, 0)
        assert self.custodian._consuming == {}
        assert self.decoder.load == 0


async def done(error: Exception | None = None) -> None:
    if error is not None:
        raise error


def test_verdicts() -> None:
    def verdict(cached: int | None) -> Hit:
        return judge_hit(Usage(prompt_tokens_details=Details(cached_tokens=cached)), 100)[0]

    assert [verdict(cached) for cached in (100, 101, 99, 0, None)] == [
        Hit.FULL, Hit.FULL, Hit.PARTIAL, Hit.MISS, Hit.UNREPORTED,
    ]  # fmt: skip
    assert judge_hit(None, 100) == (Hit.UNREPORTED, 0)


async def test_no_room_is_no_hand_off() -> None:
    desk = Desk()
    desk.handoff(2000)
    assert desk.custodian.reserve("m", [1] * 300, desk.prefiller, desk.decoder) is None
    assert desk.notifications.open == 1


async def test_reserved_only_is_released() -> None:
    desk = Desk()
    handoff = desk.handoff()
    # its request comes when it has landed: until then the decoder is as busy as with it
    assert (desk.decoder.load, desk.custodian.handoffs) == (1, (handoff,))
    desk.custodian.leave(handoff)
    await desk.settled(State.RELEASED, handoff)
    desk.custodian.leave(handoff)
    desk.custodian.release(handoff)
    desk.custodian.consumed(handoff)
    assert not desk.custodian.landed(handoff)
    assert desk.upstream.bodies == []


@pytest.mark.parametrize(
    "error", [UpstreamError("refused"), UpstreamError("unreachable"), UpstreamError("status", 400)]
)
async def test_prefill_that_was_not_begun_is_released(error: UpstreamError) -> None:
    desk = Desk()
    handoff = desk.handoff()
    desk.custodian.leave(handoff, desk.custodian.start(handoff, done(error)))
    await desk.settled(State.RELEASED, handoff)
    assert desk.upstream.bodies == []


@pytest.mark.parametrize(
    "error", [UpstreamError("timeout"), UpstreamError("broken"), UpstreamError("status", 500)]
)
async def test_prefill_of_unknown_fate_is_drained(error: UpstreamError) -> None:
    desk = Desk()
    handoff = desk.handoff(model=None)
    desk.upstream.answers = [0]
    desk.custodian.leave(handoff, desk.custodian.start(handoff, done(error)))
    await desk.settled(State.DRAINED, handoff)
    (body,) = desk.upstream.bodies
    assert json.loads(bytes(body["prompt"])) == [*range(1000), 999]
    assert (body["max_tokens"], body["cache_salt"]) == (1, handoff.salt)
    assert body["kv_transfer_params"] == handoff.tag
    assert "model" not in body
    assert desk.books.capacity(desk.decoder.key) == 8


async def test_landed_and_left_is_drained_and_a_miss_then_is_a_leak() -> None:
    desk = Desk()
    for cached, state, capacity in ((1000, State.DRAINED, 8), (256, State.LOST, 5)):
        handoff = desk.handoff()
        desk.upstream.answers = [cached]
        prefill = desk.custodian.start(handoff, done())
        await prefill
        assert desk.custodian.landed(handoff)
        desk.custodian.leave(handoff, prefill)
        await desk.settled(state, handoff)
        assert desk.books.capacity(desk.decoder.key) == capacity


async def test_consumption_under_way_is_waited_for() -> None:
    desk = Desk()
    handoff = desk.handoff()
    await desk.custodian.start(handoff, done())
    desk.custodian.landed(handoff)
    go = asyncio.Event()

    async def attempt() -> None:
        await go.wait()
        desk.custodian.consumed(handoff)

    desk.custodian.consume(handoff, attempt())
    desk.custodian.leave(handoff)
    await asyncio.sleep(0)
    assert handoff.open
    go.set()
    await desk.settled(State.CONSUMED, handoff)
    assert desk.upstream.bodies == []


async def test_failed_consumption_is_drained() -> None:
    desk = Desk()
    handoff = desk.handoff()
    await desk.custodian.start(handoff, done())
    desk.custodian.landed(handoff)
    task = desk.custodian.consume(handoff, done(UpstreamError("broken")))
    desk.custodian.leave(handoff)
    await desk.settled(State.DRAINED, handoff)
    assert isinstance(task.exception(), UpstreamError)


async def test_decoder_that_restarts_loses_what_it_held_and_nothing_else() -> None:
    desk = Desk()
    reserved, prefilling, landed = desk.handoff(100), desk.handoff(100), desk.handoff(100)
    for handoff in (prefilling, landed):
        await desk.custodian.start(handoff, done())
    desk.custodian.landed(landed)
    desk.pool.refused(desk.decoder)
    assert [h.state for h in (reserved, prefilling, landed)] == [State.RELEASED, State.LOST, State.LOST]
    assert not desk.custodian.landed(prefilling)
    desk.custodian.consumed(landed)
    await desk.settled(State.LOST, landed)


async def test_drain_whose_decoder_goes_meanwhile_is_lost_without_a_leak() -> None:
    for kind in ("refused", "answered"):
        desk = Desk()
        handoff = desk.handoff()
        await desk.custodian.start(handoff, done())
        desk.custodian.landed(handoff)
        if kind == "refused":
            desk.upstream.answers = [UpstreamError("refused")]
        else:
            desk.upstream.before = lambda desk=desk: desk.pool.refused(desk.decoder)
        desk.custodian.leave(handoff)
        await desk.settled(State.LOST, handoff)
        assert desk.counted("drains", result="failed") is None


async def test_drain_is_written_off_after_its_attempts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dpd_router.custodian._FIRST_RETRY_SECONDS", 0.001)
    desk = Desk(drain_attempts=2)
    handoff = desk.handoff()
    desk.upstream.answers = [UpstreamError("broken"), UpstreamError("timeout")]
    desk.custodian.leave(handoff, desk.custodian.start(handoff, done()))
    await desk.settled(State.LOST, handoff)
    assert desk.books.capacity(desk.decoder.key) == 4
    assert desk.counted("drains", result="failed") == 1
    (lost,) = (record for record in caplog.records if record.message == "hand-off lost")
    assert lost.__dict__["fields"]["leaked_chunks"] == 4
    for kind in ("broken", "timeout"):
        assert desk.counted("upstream_errors", role="decode", kind=kind) == 1


async def test_drain_is_tried_again_after_longer_and_longer_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpd_router.custodian._FIRST_RETRY_SECONDS", 0.01)
    desk = Desk(drain_attempts=3)
    handoff = desk.handoff()
    desk.upstream.answers = [UpstreamError("broken")] * 3
    began: list[float] = []
    desk.upstream.before = lambda: began.append(asyncio.get_running_loop().time())
    desk.custodian.leave(handoff, desk.custodian.start(handoff, done()))
    await desk.settled(State.LOST, handoff)
    first, second, third = began
    assert second - first >= 0.01
    assert third - second >= 0.04


async def test_drain_waits_for_what_may_still_be_written() -> None:
    """A drain before the last rank's report would find nothing, and the chunks would stay."""
    desk = Desk(drain_grace_seconds=LIMIT_SECONDS)
    handoff = desk.handoff()
    desk.custodian.leave(handoff, desk.custodian.start(handoff, done()))
    for _ in range(20):
        await asyncio.sleep(0)
    assert desk.upstream.bodies == []
    message = msgspec.msgpack.encode({"type": "ProxyNotif", "req_id": handoff.id})
    for _ in range(desk.notifications.missing(handoff.id)):
        desk.notifications.receive(message)
    await desk.settled(State.DRAINED, handoff)
    assert len(desk.upstream.bodies) == 1
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_is_left_at_the_end_is_told(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    handoff = desk.handoff()
    task = desk.custodian.start(handoff, asyncio.Event().wait())
    assert await desk.custodian.settle_all(0.01) == 1
    assert "left behind" in caplog.text
    await desk.custodian.stop()
    assert task.cancelled()
    assert "Exception in callback" not in caplog.text
    assert await desk.custodian.settle_all(0.01) == 1


async def test_defect_in_a_task_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    handoff = desk.handoff()
    task = desk.custodian.start(handoff, done(KeyError()))
    desk.custodian.leave(handoff, task)
    await desk.settled(State.DRAINED, handoff)
    assert "task failed" in caplog.text


async def test_miss_of_a_restarted_decoder_says_nothing_about_the_new_pair() -> None:
    desk = Desk()
    handoff = desk.handoff()
    await desk.custodian.start(handoff, done())
    desk.pool.refused(desk.decoder)
    for _ in range(5):
        desk.custodian.report_failure(handoff, "x")
    assert desk.pairs.broken == 0


async def _dry(desk: Desk) -> Handoff:
    """Leave a hand-off whose drain finds nothing."""
    handoff = desk.handoff()
    desk.upstream.answers = [0]
    desk.custodian.leave(handoff, desk.custodian.start(handoff, done()))
    await desk.settled(State.DRAINED, handoff)
    return handoff


@pytest.mark.parametrize(
    ("answer", "result", "capacity"),
    [(1000, "late", 8), (0, None, 8), (UpstreamError("broken"), "failed", 4)],
)
async def test_transfer_that_arrives_after_an_empty_drain_is_drained_again(
    answer: int | UpstreamError, result: str | None, capacity: int, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk()
    handoff = await _dry(desk)
    desk.upstream.answers = [answer]
    desk.notifications.receive(msgspec.msgpack.encode({"type": "ProxyNotif", "req_id": handoff.id}))
    assert await desk.custodian.settle_all(LIMIT_SECONDS) == 0
    assert len(desk.upstream.bodies) == 2
    assert desk.counted("drains", result=result or "late") == (1 if result else None)
    assert "task failed" not in caplog.text
    failed = result == "failed"
    assert ("late transfer could not be drained" in caplog.text) == failed
    assert desk.counted("upstream_errors", role="decode", kind="broken") == (1 if failed else None)
    assert desk.books.capacity(desk.decoder.key) == capacity


async def test_late_notification_of_an_unknown_hand_off_drains_nothing() -> None:
    desk = Desk()
    desk.notifications.receive(msgspec.msgpack.encode({"type": "ProxyNotif", "req_id": "unknown"}))
    assert await desk.custodian.settle_all(LIMIT_SECONDS) == 0
    assert desk.upstream.bodies == []


async def test_late_transfer_shows_that_its_decoder_receives() -> None:
    """Only of a decoder that has received something do empty drains prove a leak."""
    desk = Desk()
    handoff = await _dry(desk)
    desk.upstream.answers = [1000]
    desk.notifications.receive(msgspec.msgpack.encode({"type": "ProxyNotif", "req_id": handoff.id}))
    assert await desk.custodian.settle_all(LIMIT_SECONDS) == 0
    for _ in range(EVIDENCE):
        desk.leaks.not_received(desk.handoff(256))
    assert desk.leaks.leaking(desk.decoder.key)


async def test_a_flood_of_late_notifications_is_drained_one_after_the_other() -> None:
    desk = Desk()
    handoff = await _dry(desk)
    desk.upstream.answers = [0, 1000]
    message = msgspec.msgpack.encode({"type": "ProxyNotif", "req_id": handoff.id})
    for _ in range(1000):
        desk.notifications.receive(message)
    assert await desk.custodian.settle_all(LIMIT_SECONDS) == 0
    assert len(desk.upstream.bodies) == 1 + 1
    desk.notifications.receive(message)
    assert await desk.custodian.settle_all(LIMIT_SECONDS) == 0
    assert len(desk.upstream.bodies) == 1 + 2


async def test_a_rank_that_reports_during_a_late_drain_is_drained_after_it() -> None:
    desk = Desk()
    handoff = await _dry(desk)
    desk.upstream.answers = [1000, 1000]
    message = msgspec.msgpack.encode({"type": "ProxyNotif", "req_id": handoff.id})
    ranks = [message] * 3

    def report() -> None:
        while ranks:
            desk.notifications.receive(ranks.pop())

    desk.upstream.before = report
    desk.notifications.receive(message)
    assert await desk.custodian.settle_all(LIMIT_SECONDS) == 0
    assert len(desk.upstream.bodies) == 1 + 2


async def test_late_notification_of_a_decoder_that_restarted_drains_nothing() -> None:
    desk = Desk()
    handoff = await _dry(desk)
    desk.pool.refused(desk.decoder)
    desk.notifications.receive(msgspec.msgpack.encode({"type": "ProxyNotif", "req_id": handoff.id}))
    assert await desk.custodian.settle_all(LIMIT_SECONDS) == 0
    assert len(desk.upstream.bodies) == 1


async def test_memory_of_empty_drains_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    # two prompts of 1,000 ids of at most three digits
    monkeypatch.setattr("dpd_router.custodian._REMEMBERED_DRY_BYTES", 9_000)
    desk = Desk()
    handoffs = [await _dry(desk) for _ in range(5)]
    kept = desk.custodian._dry
    assert list(kept) == [handoff.id for handoff in handoffs[-2:]]
    assert sum(len(dry.prompt) for dry in kept.values()) == desk.custodian._dry_bytes <= 9_000
    assert [dry.handoff.ids for dry in kept.values()] == [(), ()]
