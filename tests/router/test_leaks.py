"""A decoder whose buffer is lost without a single request that shows it is named, and so is what to do."""

import dataclasses
import logging

import pytest

from dpd_router.books import Books
from dpd_router.custodian import Hit
from dpd_router.eligibility import Reason
from dpd_router.handoff import Handoff
from dpd_router.leaks import EVIDENCE, Leaks
from dpd_router.metrics import Metrics
from dpd_router.transfer.continuation import ContinueTransfer
from dpd_simulator import Fault, FaultKind, LMCacheConfig
from tests.router.support import Rig, prompt, running, until
from tests.router.test_custodian import Desk

TRIES_AT_ONCE = ("--pair-broken-after", "1", "--pair-retry-seconds", "0.001")
TRIES_LATER = ("--pair-broken-after", "1", "--pair-retry-seconds", "3600")
NO_WAIT = LMCacheConfig(allocation_timeout_seconds=0.05)
IDS = prompt(16 * 256)


class Case:
    """Hand-offs of one decoder with 100 chunks, judged by hand."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.metrics = Metrics()
        self.books = Books(self.metrics)
        self.books.open_account(self.desk.decoder.key, 100, 0)
        self.leaks = Leaks(self.books, self.metrics)

    def handoff(self, chunks: int) -> Handoff:
        made = Handoff(
            id=f"{id(self)}-{self.books.open_entries}", model="m", prefiller=self.desk.prefiller, decoder=self.desk.decoder,
            decoder_incarnation=self.desk.decoder.incarnation, ids=[1] * chunks * 256, salt="s", chunks=chunks,
            notified=self.desk.notifications.expect("x", 1), settled=self.desk.notifications.expect("y", 1),
        )  # fmt: skip
        assert self.books.reserve(made.id, self.desk.decoder.key, chunks)
        return made

    def lands(self, chunks: int) -> None:
        made = self.handoff(chunks)
        self.leaks.received(made)
        self.books.settle(made.id)

    def is_dry(self, chunks: int) -> None:
        made = self.handoff(chunks)
        self.leaks.not_received(made)
        self.books.settle(made.id)

    def gauge(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"decoder": self.desk.decoder.key})

    def leaking(self) -> bool:
        leaking = self.leaks.leaking(self.desk.decoder.key)
        assert (self.gauge("dpd_router_buffer_leaked") or 0) == leaking
        return leaking


def test_three_in_a_row_are_evidence_and_what_would_have_fitted_is_lost() -> None:
    case = Case()
    case.lands(4)
    for chunks in (4, 6, 5):
        assert not case.leaking()
        case.is_dry(chunks)
    assert case.leaking()
    assert case.gauge("dpd_router_suspected_chunks") == 100 - 6 + 1
    # the capacity stays: a trial may show that it is there after all
    assert case.books.capacity(case.desk.decoder.key) == 100


def test_a_decoder_that_never_received_anything_is_another_case() -> None:
    case = Case()
    for _ in range(2 * EVIDENCE):
        case.is_dry(4)
    assert not case.leaking()


def test_landing_refutes_what_was_not_larger(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    case = Case()
    case.lands(4)
    for _ in range(EVIDENCE):
        case.is_dry(8)
    case.lands(4)
    assert case.leaking()
    assert "takes hand-offs again" not in caplog.text
    case.lands(8)
    assert not case.leaking()
    case.lands(8)
    assert caplog.text.count("takes hand-offs again") == 1
    assert case.gauge("dpd_router_suspected_chunks") == 0


def test_waiting_for_the_room_of_others_is_no_evidence() -> None:
    case = Case()
    case.lands(4)
    others = case.handoff(51)
    for _ in range(EVIDENCE):
        case.is_dry(4)
    assert not case.leaking()
    case.books.settle(others.id)
    for _ in range(EVIDENCE):
        case.is_dry(4)
    assert case.leaking()


@pytest.mark.parametrize(("held", "leaking"), [(50, True), (51, False)])
def test_half_of_the_buffer_may_be_held_by_others(held: int, leaking: bool) -> None:
    case = Case()
    case.lands(4)
    case.handoff(held)
    for _ in range(EVIDENCE):
        case.is_dry(10)
    assert case.leaking() == leaking


def test_a_restart_ends_the_case_and_takes_its_hand_offs_out_of_it() -> None:
    case = Case()
    case.lands(4)
    old = case.handoff(4)
    for _ in range(EVIDENCE):
        case.is_dry(4)
    case.desk.pool.refused(case.desk.decoder)
    case.leaks.forget(case.desk.decoder.key)
    assert not case.leaking()
    case.leaks.received(old)
    for _ in range(EVIDENCE):
        case.leaks.not_received(old)
    assert not case.leaking()


async def _fill(rig: Rig) -> None:
    """Lose a decoder's buffer by hits that are reported and never loaded; no hand-off can land any more."""
    (decoder,) = rig.cluster.decoders
    await decoder.add_fault(Fault(kind=FaultKind.RETRIEVAL_SKIPPED))
    # 102 chunks: six hand-offs of 16 land, and every one of them looks perfect
    for _ in range(6):
        await rig.complete(IDS, max_tokens=2)
    assert rig.metric("dpd_router_handoff_hits_total", result=Hit.FULL) == 6
    assert decoder.used_chunks == (96,)
    # what cannot come any more need not be waited for, however busy this machine is
    transfer = rig.router.app._transfer
    assert isinstance(transfer, ContinueTransfer)
    lane, custodian = transfer._lane, rig.router.custodian
    lane._timeouts = dataclasses.replace(lane._timeouts, notification_timeout_seconds=0.05)
    custodian._timeouts = dataclasses.replace(custodian._timeouts, drain_grace_seconds=0.05)


async def test_hits_that_are_never_loaded_end_in_a_named_leak(caplog: pytest.LogCaptureFixture) -> None:
    async with running(*TRIES_AT_ONCE, lmcache=NO_WAIT) as rig:
        with caplog.at_level(logging.ERROR):
            await _fill(rig)
            assert rig.metric("dpd_router_buffer_leaked") == 0
            while not rig.metric("dpd_router_buffer_leaked"):
                await rig.complete(IDS, max_tokens=2)
                await rig.settled()
        told = [record.message for record in caplog.records if "leaks" in record.message]
        assert told == ["decoder's buffer leaks: nothing can be handed over to it until it is restarted"]
        assert rig.metric("dpd_router_drains_total", result="empty") == EVIDENCE
        assert 102 // 2 < rig.metric("dpd_router_suspected_chunks") <= 96
        for _ in range(EVIDENCE):
            await rig.complete(IDS, max_tokens=2)
            await rig.settled()
        # one at a time the bound is as close as it can be
        assert rig.metric("dpd_router_suspected_chunks") == 102 - 16 + 1


async def test_the_reason_names_the_leak_and_a_restart_heals_it() -> None:
    async with running(*TRIES_LATER, prefill=EVIDENCE, lmcache=NO_WAIT) as rig:
        (decoder,) = rig.cluster.decoders
        await _fill(rig)
        # every pair is out after one failure here; only then nobody is left who could try
        for _ in range(EVIDENCE):
            await rig.complete(IDS, max_tokens=2)
            await rig.settled()
        answer = await rig.complete(IDS, max_tokens=2)
        assert rig.decisions("direct", Reason.BUFFER_LEAKED) == 1
        await decoder.remove_faults()
        healthy = await rig.complete(IDS, max_tokens=2)
        assert answer.text == healthy.text
        await decoder.stop()
        await until(lambda: not rig.router.pool.usable_decoders())
        await decoder.start()
        await until(lambda: bool(rig.router.pool.usable_decoders()))
        assert (rig.metric("dpd_router_buffer_leaked"), rig.metric("dpd_router_suspected_chunks")) == (0, 0)


async def test_a_skipped_retrieval_is_a_wrong_answer_behind_a_perfect_report() -> None:
    async with running() as rig:
        (decoder,) = rig.cluster.decoders
        right = await rig.complete(IDS, max_tokens=8)
        await rig.settled()
        await decoder.add_fault(Fault(kind=FaultKind.RETRIEVAL_SKIPPED))
        wrong = await rig.complete(IDS, max_tokens=8)
        await rig.settled()
        assert (wrong.status, wrong.usage) == (200, right.usage)
        assert wrong.text != right.text
        assert rig.metric("dpd_router_handoff_hits_total", result=Hit.FULL) == 2
        assert decoder.used_chunks == (16,)
