"""Every failure outcome, injected end to end: what the client gets, what is counted, and that nothing leaks."""

import asyncio
import dataclasses
import json
import socket
from typing import Any

import aiohttp
import pytest

from dpd_router.config import Strategy
from dpd_router.eligibility import Reason
from dpd_router.handoff import State
from dpd_router.relay import _CLIENT_BUFFER_BYTES
from dpd_simulator import EngineConfig, Fault, FaultKind, LMCacheConfig, SimulatedEngine
from tests.router.support import (
    LIMIT_SECONDS,
    NEVER_SECONDS,
    PATIENT_SECONDS,
    Result,
    Rig,
    prompt,
    running,
    time_passes,
    until,
)

IDS = prompt(1000)
# where nothing is written that a drain could come too early for
WITHOUT_GRACE = ("--drain-grace-seconds", "0.01")
STRATEGIES = pytest.mark.parametrize("strategy", list(Strategy))


async def direct_text(rig: Rig, ids: list[int] | None = None, tokens: int = 6) -> str:
    """Return what a healthy decoder answers."""
    engine = rig.cluster.decoders[-1]
    answer = await rig.post(
        "/v1/completions", model="m", prompt=ids or IDS, temperature=0, max_tokens=tokens, base=engine.url
    )
    return answer.text


def starts(rig: Rig, **fields: Any) -> asyncio.Task[Result]:
    """Send a request that the test goes on beside."""
    return asyncio.create_task(rig.complete(IDS, max_tokens=6, **fields))


def lost(rig: Rig) -> bool:
    """Whether the notification that is to be lost once was: everything was written before it."""
    return rig.cluster.prefillers[0].faults.active(FaultKind.NOTIFICATION_LOST) is None


async def fails(rig: Rig, count: int) -> None:
    """Wait until so many transfers of the first prefiller have failed."""
    prefiller = rig.cluster.prefillers[0]
    await until(lambda: prefiller.engine.state()["connector"]["failed_transfers"] == [count])


async def arrives(engine: SimulatedEngine, count: int) -> None:
    """Wait until so many completions were asked of an engine."""
    await until(lambda: engine.requests.get("/v1/completions") == count)


def open_states(rig: Rig) -> list[State]:
    return [handoff.state for handoff in rig.router.custodian.handoffs]


# prefiller


async def test_prefiller_that_refuses_is_replaced_by_another() -> None:
    async with running("--health-interval-seconds", "60", prefill=2) as rig:
        await rig.cluster.prefillers[0].stop()
        for _ in range(3):
            answer = await rig.complete(IDS, max_tokens=6)
            assert answer.text == await direct_text(rig)
        await rig.settled()
        assert rig.decisions("disaggregated", Reason.THRESHOLD) == 3
        assert rig.metric("dpd_router_handoffs_total", state=State.RELEASED) == 1
        assert rig.metric("dpd_router_retries_total", role="prefill") == 1


async def test_only_prefiller_refusing_falls_back_to_direct_decoding() -> None:
    async with running("--health-interval-seconds", "60") as rig:
        await rig.cluster.prefillers[0].stop()
        answer = await rig.complete(IDS, max_tokens=6, stream=True)
        assert answer.text == await direct_text(rig)
        again = await rig.complete(IDS, max_tokens=6)
        assert again.status == 200
        await rig.settled()
        assert rig.decisions("fallback", Reason.PREFILL_UNREACHABLE) == 1
        assert rig.decisions("direct", Reason.NO_PREFILLER) == 1


async def test_prefiller_without_an_answer_times_out_and_then_counts_as_hung() -> None:
    async with running("--hung-after", "2", *WITHOUT_GRACE) as rig:
        prefiller = rig.cluster.prefillers[0]
        await prefiller.add_fault(Fault(kind=FaultKind.HANG))
        for count in (1, 2):
            request = starts(rig)
            await arrives(prefiller, count)
            time_passes(PATIENT_SECONDS)
            assert (await request).text == await direct_text(rig)
        assert rig.decisions("fallback", Reason.PREFILL_TIMEOUT) == 2
        assert rig.metric("dpd_router_worker_hung") == 1
        answer = await rig.complete(IDS, max_tokens=6)
        assert answer.text == await direct_text(rig)
        assert rig.decisions("direct", Reason.NO_PREFILLER) == 1
        await rig.settled()
        # the restart that the engine's own timeout brings about makes it usable again
        await prefiller.remove_faults()
        await prefiller.stop()
        await until(lambda: rig.metric("dpd_router_worker_hung") == 0)
        await prefiller.start()
        await until(lambda: bool(rig.router.pool.usable_prefillers()))
        await rig.complete(IDS, max_tokens=6)
        assert rig.decisions("disaggregated", Reason.THRESHOLD) == 1
        assert rig.used_chunks() == [(0,)]


async def test_prefiller_that_dies_within_a_request() -> None:
    async with running(*WITHOUT_GRACE) as rig:
        await rig.cluster.prefillers[0].add_fault(Fault(kind=FaultKind.DIE_ON_REQUEST, times=1))
        answer = await rig.complete(IDS, max_tokens=6)
        assert answer.text == await direct_text(rig)
        await rig.settled()
        assert rig.decisions("fallback", Reason.PREFILL_FAILED) == 1
        assert rig.used_chunks() == [(0,)]


@pytest.mark.parametrize(("status", "reason"), [(503, Reason.PREFILL_FAILED), (400, Reason.PREFILL_REJECTED)])
async def test_prefiller_that_answers_an_error(status: int, reason: Reason) -> None:
    async with running(*WITHOUT_GRACE) as rig:
        await rig.cluster.prefillers[0].add_fault(Fault(kind=FaultKind.ERROR_STATUS, status=status, times=1))
        answer = await rig.complete(IDS, max_tokens=6)
        assert answer.text == await direct_text(rig)
        await rig.settled()
        assert rig.decisions("fallback", reason) == 1


# notifications


@STRATEGIES
async def test_lost_notification_falls_back_and_the_landed_cache_is_drained(strategy: Strategy) -> None:
    engine = EngineConfig(prefix_caching=strategy is Strategy.LAND)
    async with running("--strategy", strategy, decode=2, engine=engine) as rig:
        await rig.cluster.add_fault(Fault(kind=FaultKind.NOTIFICATION_LOST, times=1), rig.cluster.prefillers)
        request = starts(rig, stream=True)
        await until(lambda: lost(rig))
        await rig.notification_in_vain()
        answer = await request
        assert answer.text == await direct_text(rig)
        assert answer.finish == ("length", None)
        assert sum(chunks for (chunks,) in rig.used_chunks()) == 4
        await rig.notification_in_vain()
        await rig.settled()
        assert rig.used_chunks() == [(0,), (0,)]
        assert rig.decisions("fallback", Reason.NOTIFICATION_TIMEOUT) == 1
        assert rig.metric("dpd_router_notif_timeouts_total") == 1
        assert rig.metric("dpd_router_drains_total", result="hit") == 1


async def test_late_notification_drains_at_once() -> None:
    async with running("--drain-grace-seconds", str(NEVER_SECONDS)) as rig:
        delay_seconds = 2 * PATIENT_SECONDS
        fault = Fault(kind=FaultKind.NOTIFICATION_DELAYED, seconds=delay_seconds, times=1)
        await rig.cluster.add_fault(fault, rig.cluster.prefillers)
        request = starts(rig)
        # it is written, and somebody has begun to wait
        await until(lambda: rig.cluster.prefillers[0].faults.active(fault.kind) is None)
        await rig.notification_in_vain()
        answer = await request
        assert answer.text == await direct_text(rig)
        time_passes(delay_seconds)
        await rig.settled()
        assert rig.metric("dpd_router_handoffs_total", state=State.DRAINED) == 1
        assert rig.used_chunks() == [(0,)]


async def test_duplicated_notifications_change_nothing() -> None:
    async with running() as rig:
        await rig.cluster.add_fault(Fault(kind=FaultKind.NOTIFICATION_DUPLICATED), rig.cluster.prefillers)
        for _ in range(3):
            assert (await rig.complete(IDS, max_tokens=6)).status == 200
        await rig.settled()
        assert rig.metric("dpd_router_handoff_hits_total", result="full") == 3

        def second_ones() -> float:
            kinds = ("late", "duplicate")
            return sum(rig.metric("dpd_router_notifications_total", kind=kind) for kind in kinds)

        # the last one may still be on its way when its hand-off is settled
        await until(lambda: second_ones() == 3)


async def test_flood_of_unknown_notifications_is_counted_and_harmless() -> None:
    async with running() as rig:
        await rig.cluster.add_fault(
            Fault(kind=FaultKind.NOTIFICATION_FLOOD, count=500), rig.cluster.prefillers
        )
        answer = await rig.complete(IDS, max_tokens=6)
        assert answer.text == await direct_text(rig)
        await until(lambda: rig.metric("dpd_router_notifications_total", kind="unknown") == 500)
        await rig.settled()


async def test_every_rank_has_to_notify(caplog: pytest.LogCaptureFixture) -> None:
    engine = EngineConfig(tensor_parallel_size=4)
    async with running(engine=engine) as rig:
        assert (await rig.complete(IDS, max_tokens=6)).text == await direct_text(rig)
        assert rig.metric("dpd_router_notifications_total", kind="expected") == 4
        fault = Fault(kind=FaultKind.NOTIFICATION_LOST, rank=2, times=1)
        await rig.cluster.add_fault(fault, rig.cluster.prefillers)
        request = starts(rig)
        await until(lambda: lost(rig) and rig.metric("dpd_router_notifications_total", kind="expected") == 7)
        await rig.notification_in_vain()
        assert (await request).text == await direct_text(rig)
        await rig.notification_in_vain()
        await rig.settled()
        assert rig.decisions("fallback", Reason.NOTIFICATION_TIMEOUT) == 1
        assert rig.metric("dpd_router_notif_timeouts_total") == 1
        assert rig.used_chunks() == [(0, 0, 0, 0)]
    (failed,) = (record for record in caplog.records if record.message == "hand-off failed")
    fields = failed.__dict__["fields"]
    assert (fields["reason"], fields["ranks_missing"]) == (Reason.NOTIFICATION_TIMEOUT, 1)


# transfer


async def test_transfer_that_fails_behind_a_200_breaks_the_pair() -> None:
    async with running("--pair-broken-after", "3") as rig:
        await rig.cluster.add_fault(Fault(kind=FaultKind.TRANSFER_FAILED), rig.cluster.prefillers)
        for count in (1, 2, 3):
            request = starts(rig)
            # its sender takes back what it had been given
            await fails(rig, count)
            await until(lambda: rig.used_chunks() == [(0,)])
            await rig.notification_in_vain()
            assert (await request).text == await direct_text(rig)
            await rig.notification_in_vain()
            await rig.settled()
        assert rig.decisions("fallback", Reason.NOTIFICATION_TIMEOUT) == 3
        assert rig.metric("dpd_router_pairs_broken") == 1
        assert (await rig.complete(IDS, max_tokens=6)).text == await direct_text(rig)
        assert rig.decisions("direct", Reason.PAIR_BROKEN) == 1
        await rig.settled()
        assert rig.metric("dpd_router_drains_total", result="empty") == 3
        assert rig.used_chunks() == [(0,)]


async def test_broken_pair_heals_by_a_trial() -> None:
    async with running("--pair-broken-after", "1", "--pair-retry-seconds", "0.01") as rig:
        await rig.cluster.add_fault(Fault(kind=FaultKind.TRANSFER_FAILED, times=1), rig.cluster.prefillers)
        request = starts(rig)
        await fails(rig, 1)
        for _ in ("its notification", "a late one"):
            await rig.notification_in_vain()
        assert (await request).status == 200
        assert rig.metric("dpd_router_pairs_broken") == 1
        (prefiller,), (decoder,) = rig.router.pool.usable_prefillers(), rig.router.pool.usable_decoders()
        await until(lambda: rig.router.pairs.usable(prefiller, decoder))
        await rig.complete(IDS, max_tokens=6)
        assert rig.metric("dpd_router_pairs_broken") == 0
        await rig.settled()


async def test_miss_is_a_failed_handoff_and_takes_the_chunks_off_the_books() -> None:
    async with running() as rig:
        await rig.cluster.add_fault(Fault(kind=FaultKind.KV_MISS, times=1), rig.cluster.decoders)
        answer = await rig.complete(IDS, max_tokens=6)
        assert answer.text == await direct_text(rig)
        await rig.settled()
        assert rig.metric("dpd_router_handoff_hits_total", result="miss") == 1
        assert rig.metric("dpd_router_handoff_failures_total", reason="cache_miss") == 1
        assert rig.used_chunks() == [(4,)]
        (decoder,) = rig.decoders
        assert rig.router.books.capacity(decoder.key) == 102 - 4


# decoder


@pytest.mark.parametrize("stream", [True, False])
async def test_decoder_that_dies_before_its_first_byte_is_replaced(stream: bool) -> None:
    async with running(decode=2) as rig:
        expected = await direct_text(rig)
        for engine in rig.cluster.decoders:
            engine.faults.add(Fault(kind=FaultKind.DIE_ON_REQUEST, times=1))
        rig.cluster.decoders[1].faults.remove()
        for _ in range(2):
            assert (await rig.complete(IDS, max_tokens=6, stream=stream)).text == expected
            await rig.knows_its_decoders()
        await rig.settled()
        assert rig.metric("dpd_router_handoffs_total", state=State.LOST) == 1


async def test_decoder_that_dies_within_a_stream_ends_it_with_an_error_event() -> None:
    async with running() as rig:
        expected = await direct_text(rig, tokens=3)
        await rig.cluster.decoders[0].add_fault(Fault(kind=FaultKind.DIE_AFTER_TOKENS, tokens=4))
        answer = await rig.complete(IDS, max_tokens=50, stream=True)
        *shown, last = answer.events
        assert "".join(event["choices"][0]["text"] for event in shown).startswith(expected)
        assert last["error"]["code"] == "decoder_lost"
        await rig.settled()


async def test_decoder_that_dies_within_a_whole_answer_is_replaced() -> None:
    async with running(decode=2) as rig:
        expected = await direct_text(rig, tokens=50)
        await rig.cluster.decoders[0].add_fault(Fault(kind=FaultKind.DIE_AFTER_TOKENS, tokens=4))
        for _ in range(2):
            assert (await rig.complete(IDS, max_tokens=50)).text == expected
        await rig.settled()


@pytest.mark.parametrize("stream", [True, False])
async def test_direct_request_whose_decoder_dies_before_its_first_byte_is_sent_elsewhere(
    stream: bool,
) -> None:
    async with running(decode=2) as rig:
        ids = prompt(100)
        expected = await direct_text(rig, ids)
        await rig.cluster.decoders[0].add_fault(Fault(kind=FaultKind.DIE_ON_REQUEST, times=1))
        for _ in range(2):
            assert (await rig.complete(ids, max_tokens=6, stream=stream)).text == expected
            await rig.knows_its_decoders()
        assert rig.metric("dpd_router_retries_total", role="decode") == 1


async def test_direct_stream_whose_decoder_dies_ends_with_an_error_event() -> None:
    async with running() as rig:
        await rig.cluster.decoders[0].add_fault(Fault(kind=FaultKind.DIE_AFTER_TOKENS, tokens=4))
        answer = await rig.complete(prompt(100), max_tokens=50, stream=True)
        assert answer.events[-1]["error"]["code"] == "decoder_lost"


async def test_direct_error_event_is_passed_on_and_counted() -> None:
    async with running() as rig:
        await rig.cluster.decoders[0].add_fault(Fault(kind=FaultKind.ERROR_IN_STREAM, tokens=1))
        answer = await rig.complete(prompt(100), max_tokens=5, stream=True)
        assert "error" in answer.events[-1]
        assert rig.metric("dpd_router_upstream_errors_total", role="decode", kind="error_event") == 1


@STRATEGIES
async def test_error_event_behind_a_200_after_the_first_token_reaches_the_client(strategy: Strategy) -> None:
    engine = EngineConfig(prefix_caching=strategy is Strategy.LAND)
    async with running("--strategy", strategy, engine=engine) as rig:
        await rig.cluster.decoders[0].add_fault(Fault(kind=FaultKind.ERROR_IN_STREAM, tokens=2))
        answer = await rig.complete(IDS, max_tokens=6, stream=True)
        assert "error" in answer.events[-1]
        assert answer.events[0]["choices"][0]["text"]
        await rig.settled()
        assert rig.metric("dpd_router_upstream_errors_total", role="decode", kind="error_event") == 1


async def test_no_decoder_is_a_503_with_retry_after() -> None:
    async with running("--retry-after-seconds", "7") as rig:
        await rig.cluster.decoders[0].stop()
        await until(lambda: not rig.router.pool.usable_decoders())
        for ids in (IDS, prompt(100)):
            answer = await rig.complete(ids, max_tokens=6)
            assert (answer.status, answer.headers["Retry-After"]) == (503, "7")
            assert answer.body["error"]["code"] == "no_decoder"
        assert (await rig.get("/ready")).status == 503
        assert (await rig.get("/health")).status == 200
        await rig.settled()


@STRATEGIES
async def test_decoder_that_restarts_with_a_new_port_epoch_gets_hand_offs_again(strategy: Strategy) -> None:
    lmcache = LMCacheConfig()
    engine = EngineConfig(prefix_caching=strategy is Strategy.LAND)
    async with running("--strategy", strategy, engine=engine, lmcache=lmcache) as rig:
        assert (await rig.complete(IDS, max_tokens=6)).status == 200
        decoder = rig.cluster.decoders[0]
        assert decoder.config.lmcache is not None
        following = dataclasses.replace(decoder.config.lmcache, init_ports=(7303,), alloc_ports=(7403,))
        await decoder.restart(
            dataclasses.replace(decoder.config, lmcache=following, served_model_names=("m", "dpd-epoch-11"))
        )
        await until(lambda: rig.metric("dpd_router_worker_port_epoch") == 11)
        await until(lambda: bool(rig.router.pool.usable_decoders()))
        answer = await rig.complete(IDS, max_tokens=6)
        assert answer.text == await direct_text(rig)
        await rig.settled()
        assert rig.metric("dpd_router_handoff_hits_total", result="full") == 2
        assert rig.metric("dpd_router_worker_restarts_total", role="decode") == 1
        names = [model["id"] for model in (await rig.get("/v1/models")).body["data"]]
        assert names == ["m"]


async def _restart_with_epoch(rig: Rig, epoch: int, *, port_epochs: int) -> None:
    decoder = rig.cluster.decoders[0]
    assert decoder.config.lmcache is not None
    shift = epoch % port_epochs
    ports = dataclasses.replace(
        decoder.config.lmcache, init_ports=(7300 + shift,), alloc_ports=(7400 + shift,)
    )
    names = ("m", f"dpd-epoch-{epoch}")
    await decoder.restart(dataclasses.replace(decoder.config, lmcache=ports, served_model_names=names))
    await until(lambda: rig.metric("dpd_router_worker_port_epoch") == epoch)
    await until(lambda: bool(rig.router.pool.usable_decoders()))


async def test_decoder_whose_port_epochs_have_come_round_gets_no_hand_off_that_must_fail() -> None:
    async with running("--port-epochs", "2") as rig:
        prefiller = rig.cluster.prefillers[0]
        assert (await rig.complete(IDS, max_tokens=6)).text == await direct_text(rig)
        for epoch in (1, 2):
            await _restart_with_epoch(rig, epoch, port_epochs=2)
            assert (await rig.complete(IDS, max_tokens=6)).text == await direct_text(rig)
        assert rig.metric("dpd_router_handoff_hits_total", result="full") == 2
        assert rig.decisions("direct", Reason.PAIR_BROKEN) == 1
        assert rig.metric("dpd_router_pairs_broken") == 1
        assert rig.metric("dpd_router_notif_timeouts_total") == 0

        await prefiller.stop()
        await until(lambda: not rig.router.pool.usable_prefillers())
        await prefiller.start()
        await until(lambda: bool(rig.router.pool.usable_prefillers()))
        assert (await rig.complete(IDS, max_tokens=6)).text == await direct_text(rig)
        assert rig.metric("dpd_router_handoff_hits_total", result="full") == 3
        assert rig.metric("dpd_router_pairs_broken") == 0
        await rig.settled()


async def test_decoder_that_restarts_on_the_same_ports_is_decoded_directly() -> None:
    async with running("--pair-broken-after", "2") as rig:
        assert (await rig.complete(IDS, max_tokens=6)).status == 200
        await rig.cluster.decoders[0].stop()
        await until(lambda: not rig.router.pool.usable_decoders())
        await rig.cluster.decoders[0].start()
        await until(lambda: bool(rig.router.pool.usable_decoders()))
        for count in (1, 2):
            request = starts(rig)
            await fails(rig, count)
            for _ in ("its notification", "a late one"):
                await rig.notification_in_vain()
            assert (await request).text == await direct_text(rig)
            await rig.settled()
        assert (await rig.complete(IDS, max_tokens=6)).text == await direct_text(rig)
        assert rig.decisions("fallback", Reason.NOTIFICATION_TIMEOUT) == 2
        assert rig.decisions("direct", Reason.PAIR_BROKEN) == 1
        await rig.settled()


# room


async def test_no_room_is_decoded_directly_and_room_that_comes_is_used() -> None:
    flags = ("--decoder-buffer-chunks", "4", "--buffer-wait-seconds", "0")
    async with running(*flags) as rig:
        await rig.cluster.prefillers[0].add_fault(Fault(kind=FaultKind.HANG))
        first = asyncio.create_task(rig.complete(IDS, max_tokens=6))
        await until(lambda: open_states(rig) == [State.PREFILLING])
        assert (await rig.complete(IDS, max_tokens=6)).text == await direct_text(rig)
        assert rig.decisions("direct", Reason.NO_BUFFER_ROOM) == 1
        await rig.cluster.prefillers[0].remove_faults()
        assert (await first).text == await direct_text(rig)
        await rig.settled()


async def test_request_waits_for_room() -> None:
    async with running("--decoder-buffer-chunks", "4") as rig:
        answers = await asyncio.gather(*(rig.complete(IDS, max_tokens=6) for _ in range(8)))
        assert {answer.text for answer in answers} == {await direct_text(rig)}
        assert rig.decisions("disaggregated", Reason.THRESHOLD) == 8
        await rig.settled()


async def test_prompt_larger_than_the_buffer_is_decoded_directly() -> None:
    async with running("--decoder-buffer-chunks", "3") as rig:
        assert (await rig.complete(IDS, max_tokens=6)).text == await direct_text(rig)
        assert rig.decisions("direct", Reason.EXCEEDS_BUFFER) == 1


# client


async def gone(task: "asyncio.Task[object]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@STRATEGIES
async def test_client_gone_while_prefilling_is_drained(strategy: Strategy) -> None:
    engine = EngineConfig(prefix_caching=strategy is Strategy.LAND)
    async with running("--strategy", strategy, engine=engine) as rig:
        await rig.cluster.prefillers[0].add_fault(Fault(kind=FaultKind.HANG))
        client = asyncio.create_task(rig.complete(IDS, max_tokens=6, stream=True))
        await until(lambda: open_states(rig) == [State.PREFILLING])
        await gone(client)
        await until(lambda: rig.metric("dpd_router_client_disconnects_total") == 1)
        await rig.cluster.prefillers[0].remove_faults()
        await rig.settled()
        assert rig.metric("dpd_router_handoffs_total", state=State.DRAINED) == 1
        assert rig.used_chunks() == [(0,)]


async def test_client_gone_while_waiting_for_the_notification_is_drained() -> None:
    async with running("--drain-grace-seconds", str(NEVER_SECONDS)) as rig:
        fault = Fault(kind=FaultKind.NOTIFICATION_DELAYED, seconds=PATIENT_SECONDS, times=1)
        await rig.cluster.add_fault(fault, rig.cluster.prefillers)
        async with rig.session.post(
            rig.base + "/v1/completions", json={"model": "m", "prompt": IDS, "max_tokens": 6, "stream": True}
        ) as response:
            await response.content.readany()  # the first token
        await until(lambda: rig.metric("dpd_router_client_disconnects_total") == 1)
        await until(lambda: rig.cluster.prefillers[0].faults.active(fault.kind) is None)
        for _ in range(2):  # the delay begins within
            await asyncio.sleep(0)
        time_passes(PATIENT_SECONDS)
        await rig.settled()
        assert rig.metric("dpd_router_handoffs_total", state=State.DRAINED) == 1
        assert rig.used_chunks() == [(0,)]


@STRATEGIES
async def test_client_gone_before_the_decoder_answers_lets_it_consume(strategy: Strategy) -> None:
    engine = EngineConfig(prefix_caching=strategy is Strategy.LAND)
    async with running("--strategy", strategy, engine=engine) as rig:
        await rig.cluster.decoders[0].add_fault(Fault(kind=FaultKind.HANG))
        client = asyncio.create_task(rig.complete(IDS, max_tokens=6, stream=True))
        await until(lambda: open_states(rig) == [State.LANDED])
        await until(lambda: rig.metric("dpd_router_worker_requests", role="decode") == 1)
        await gone(client)
        await until(lambda: rig.metric("dpd_router_client_disconnects_total") == 1)
        await rig.cluster.decoders[0].remove_faults()
        await rig.settled()
        assert rig.metric("dpd_router_handoffs_total", state=State.CONSUMED) == 1
        assert rig.used_chunks() == [(0,)]
        await until(lambda: rig.metric("dpd_router_worker_requests", role="decode") == 0)


@STRATEGIES
@pytest.mark.parametrize("tokens", [1000, 100])
async def test_client_gone_within_the_answer_ends_the_decoder_s_request(
    strategy: Strategy, tokens: int
) -> None:
    engine = EngineConfig(prefix_caching=strategy is Strategy.LAND)
    async with running("--strategy", strategy, engine=engine) as rig:
        await rig.cluster.decoders[0].add_fault(Fault(kind=FaultKind.SLOW, factor=1.0))
        body = {
            "model": "m",
            "prompt": prompt(tokens),
            "max_tokens": 4000,
            "stream": True,
            "ignore_eos": True,
        }
        async with rig.session.post(rig.base + "/v1/completions", json=body) as response:
            for _ in range(3):
                await response.content.readany()
        await until(lambda: rig.metric("dpd_router_client_disconnects_total") == 1)
        await until(lambda: rig.metric("dpd_router_worker_requests", role="decode") == 0)
        await rig.settled()
        # it generates nothing for nobody, and no connection stays open for it
        await until(lambda: rig.cluster.decoders[0].engine.state()["running"] == 0)
        await until(lambda: not rig.router.relays.open)
        assert rig.used_chunks() == [(0,)]


async def test_client_gone_while_waiting_for_room_leaves_nothing() -> None:
    async with running("--decoder-buffer-chunks", "4") as rig:
        await rig.cluster.prefillers[0].add_fault(Fault(kind=FaultKind.HANG))
        first = asyncio.create_task(rig.complete(IDS, max_tokens=6))
        await until(lambda: open_states(rig) == [State.PREFILLING])
        second = asyncio.create_task(rig.complete(IDS, max_tokens=6))
        await until(lambda: rig.router.books.waiting == 1)
        await gone(second)
        await until(lambda: rig.router.books.waiting == 0)
        await rig.cluster.prefillers[0].remove_faults()
        assert (await first).status == 200
        await rig.settled()


async def test_slow_client_does_not_fill_the_router_s_memory() -> None:
    tokens = 15_000
    async with running() as rig:
        body = {"model": "m", "prompt": prompt(100), "max_tokens": tokens, "stream": True, "ignore_eos": True}
        small = socket.socket()
        # the kernel would hold the whole answer otherwise
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        small.setblocking(False)
        await asyncio.get_running_loop().sock_connect(small, (rig.cluster.router_host, rig.router.port))
        reader, writer = await asyncio.open_connection(sock=small, limit=1024)
        assert rig.router._runner is not None
        assert rig.router._runner.server is not None
        server = rig.router._runner.server
        await until(lambda: len(server.connections) == 1)
        transport = server.connections[0].transport
        assert transport is not None
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        raw = json.dumps(body).encode()
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n" % len(raw) + raw)

        def paused() -> bool:
            return any(c._transport and not c._transport.is_reading() for c in rig.router.relays._open)

        await until(paused)
        # what it stops at, and the last read of the worker
        assert transport.get_write_buffer_size() <= _CLIENT_BUFFER_BYTES + 256 * 1024
        # seen; with windows this small the rest would take the kernel's timers
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        async with asyncio.timeout(LIMIT_SECONDS):
            answer = await reader.read()
        assert answer.count(b'"index":0') == tokens
        assert b"data: [DONE]" in answer
        writer.close()


# shutdown


async def test_shutdown_drains_what_requests_leave() -> None:
    async with running("--shutdown-grace-seconds", "0.05") as rig:
        await rig.cluster.decoders[0].add_fault(Fault(kind=FaultKind.HANG))
        client = asyncio.create_task(rig.complete(IDS, max_tokens=6))
        await until(lambda: open_states(rig) == [State.LANDED])
        stop = asyncio.create_task(rig.router.stop())
        with pytest.raises(aiohttp.ClientError):
            await client
        await rig.cluster.decoders[0].remove_faults()
        assert await stop == 0
        assert rig.used_chunks() == [(0,)]


async def test_request_during_shutdown_is_a_503_and_running_ones_finish() -> None:
    async with running() as rig:
        await rig.cluster.prefillers[0].add_fault(Fault(kind=FaultKind.HANG))
        client = asyncio.create_task(rig.complete(IDS, max_tokens=6))
        await until(lambda: open_states(rig) == [State.PREFILLING])
        stop = asyncio.create_task(rig.router.stop())
        await until(lambda: rig.router.admission.closing)
        refused = await rig.complete(prompt(100), max_tokens=6)
        assert refused.body["error"]["code"] == "shutting_down"
        assert refused.headers["Connection"] == "close"
        assert (await rig.get("/ready")).status == 503
        await rig.cluster.prefillers[0].remove_faults()
        assert (await client).text == await direct_text(rig)
        assert await stop == 0


# versions


@STRATEGIES
@pytest.mark.parametrize("version", ["0.4.3", "0.5.3"])
async def test_both_generations_of_lmcache_hand_over_without_a_leak(strategy: Strategy, version: str) -> None:
    engine = EngineConfig(prefix_caching=strategy is Strategy.LAND, tensor_parallel_size=2)
    async with running("--strategy", strategy, engine=engine, lmcache=LMCacheConfig(version=version)) as rig:
        for seed in range(12):
            ids = prompt(3000, seed)
            assert (await rig.complete(ids, max_tokens=3, stream=bool(seed % 2))).text == await direct_text(
                rig, ids, 3
            )
        await rig.settled()
        # a first token that is half a character is decoded directly and drained
        unknown = rig.decisions("fallback", Reason.FIRST_TOKEN_TEXT_UNKNOWN)
        assert unknown <= 2
        assert rig.metric("dpd_router_handoff_hits_total", result="full") == 12 - unknown
        assert rig.used_chunks() == [(0, 0)]


async def test_prompts_that_arrive_together_are_handed_to_different_decoders() -> None:
    async with running("--threshold", "256", decode=2) as rig:
        answers = await asyncio.gather(*(rig.complete(prompt(1000, seed), max_tokens=6) for seed in range(2)))
        assert [answer.status for answer in answers] == [200, 200]
        await rig.settled()
        assert all("/v1/completions" in engine.requests for engine in rig.cluster.decoders)
        assert [worker.load for worker in rig.decoders] == [0, 0]


async def test_nothing_is_handed_over_beside_another_router() -> None:
    async with running() as rig:
        rig.router.others.alone = False
        assert (await rig.complete(IDS, max_tokens=6)).text == await direct_text(rig)
        assert rig.decisions("direct", Reason.OTHER_ROUTER) == 1
        assert rig.cluster.prefillers[0].requests == {}
        rig.router.others.alone = True
        assert (await rig.complete(IDS, max_tokens=6)).text == await direct_text(rig)
        assert rig.decisions("disaggregated", Reason.THRESHOLD) == 1
        await rig.settled()
