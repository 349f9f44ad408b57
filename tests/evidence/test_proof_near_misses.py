"""Cases of a proof that differ in one thing from one another: what it takes for a finding, and what is not enough."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from hyperpod_dpd.evidence.proof import run
from hyperpod_dpd.evidence.proof.case import Case
from hyperpod_dpd.evidence.proof.failures import diagnose
from hyperpod_dpd.evidence.proof.logs import Retrieved
from hyperpod_dpd.evidence.proof.observe import Reading
from hyperpod_dpd.evidence.proof.samples import Samples
from hyperpod_dpd.evidence.proof.send import Sent
from hyperpod_dpd.evidence.proof.web import Deadline
from tests.evidence.cases import (
    DECODER,
    PREFILLER,
    TARGET,
    WELL_DECODE,
    WELL_PREFILL,
    WELL_ROUTER,
    case,
    direct,
    fallback,
    found,
    reading,
    refused,
)

BLIND = replace(TARGET, router_metrics=False)
NEVER = replace(TARGET, threshold_tokens=None)
NIXL = replace(TARGET, transfer="nixl", expects_efa=False)
SHORT_UNSEEN = reading(None, "", "")
OTHER_DECODER = "http://10.0.0.4:8000"

NO_ANSWER = (Sent(words=1, seconds=9, problem="no answer within 9 seconds"),)
STAYED = 'dpd_router_decisions_total{decision="direct",reason="below_threshold"} 1\n'
WENT = 'dpd_router_decisions_total{decision="disaggregated",reason="threshold"} 1\n'
TIMEOUT = 'dpd_router_decisions_total{decision="fallback",reason="notification_timeout"} 1\n'
UNREPORTED = WELL_ROUTER.replace("full", "unreported")
OLD_HITS = "vllm:external_prefix_cache_hits_total 4608\n"


def unread(*urls: str) -> Reading:
    return Reading(unreadable=dict.fromkeys(urls, "no answer within 10 seconds"))


def short(**changes: Any) -> Sent:
    return replace(Sent(words=24, seconds=0.1, status=200, prompt_tokens=30), **changes)


def retrieved(*speeds: float | None, tokens: int = 4608) -> tuple[Retrieved, ...]:
    return tuple(Retrieved(tokens=tokens, wanted=4608, gb_per_second=speed) for speed in speeds)


def told(router: str, **more: Any) -> Reading:
    return reading(router, **more)


ANSWERS: dict[str, tuple[Case, list[str]]] = {
    "503, although decoders can be read": (case(long=refused(503)), ["no-decoder"]),
    "no answer, and no decoder can be read": (case(long=NO_ANSWER, now=unread(DECODER)), ["no-decoder"]),
    "no answer, and one of two decoders can be read": (
        case(long=NO_ANSWER, now=unread(DECODER), target=replace(TARGET, decoders=(DECODER, OTHER_DECODER))),
        ["no-answer"],
    ),
    "answers, and no decoder can be read": (case(now=unread(DECODER)), []),
    "the lowest status of a refusal": (case(long=refused(400)), ["prompt-refused"]),
    "the highest": (case(long=refused(499)), ["prompt-refused"]),
    "no refusal any more": (case(long=refused(502)), ["bad-answer"]),
    "a long answer is late behind others": (case(long=NO_ANSWER, waiting=1), ["prefill-queue"]),
    "late, and nobody waits": (case(long=NO_ANSWER), ["no-answer"]),
    "late, and prefillers stand still": (case(reading(prefill=""), long=NO_ANSWER, waiting=1), ["no-answer"]),
    "broken, and others wait": (case(long=refused(500), waiting=1), ["bad-answer"]),
    "given up by the router, behind others": (
        case(fallback("prefill_timeout"), waiting=1),
        ["prefill-queue"],
    ),
    "given up by the router, and nobody waits": (case(fallback("prefill_timeout")), ["prefiller-hung"]),
}

SHORT: dict[str, tuple[Case, list[str]]] = {
    "no prompt is short enough": (case(short=None, quiet=reading("", "", "")), []),
    "the router counted a hand-off": (case(quiet=told(WENT, prefill="", decode="")), ["threshold-inverted"]),
    "the router counted a fallback": (
        case(quiet=told(TIMEOUT, prefill="", decode="")),
        ["threshold-inverted"],
    ),
    "the hand-off was another's": (case(quiet=told(WENT + STAYED, prefill="", decode="")), []),
    "the answer says so, whatever was counted": (
        case(short=short(decision="disaggregated")),
        ["threshold-inverted"],
    ),
    "the answer says otherwise than what was counted": (
        case(short=short(decision="direct"), quiet=told(WENT, prefill="", decode="")),
        [],
    ),
    "prefillers computed it": (
        case(reading(None), quiet=reading(None, "vllm:prompt_tokens_total 30\n", ""), target=BLIND),
        ["threshold-inverted"],
    ),
    "prefillers computed it, and the router counted nothing": (
        case(quiet=told("", prefill="vllm:prompt_tokens_total 30\n", decode="")),
        ["threshold-inverted"],
    ),
    "never, prefillers computed it, and the router counted nothing": (
        case(told(""), target=NEVER),
        ["threshold-inverted"],
    ),
    "prefillers computed another's, and the answer says that it stayed": (
        case(
            short=short(decision="direct"), quiet=told("", prefill="vllm:prompt_tokens_total 30\n", decode="")
        ),
        [],
    ),
    "never, and the router counted a hand-off of which prefillers show nothing": (
        case(told(WENT, prefill=""), target=NEVER),
        ["threshold-inverted"],
    ),
    "never, and the router counted a fallback of which prefillers show nothing": (
        case(told(TIMEOUT, prefill=""), target=NEVER),
        ["threshold-inverted"],
    ),
    "never, prefillers compute another's, and the answer says that it stayed": (
        case(
            reading(None),
            target=replace(NEVER, router_metrics=False),
            quiet=SHORT_UNSEEN,
            long=(short(words=4608, prompt_tokens=4608, decision="direct"),),
        ),
        [],
    ),
    "prefillers computed less": (
        case(reading(None), quiet=reading(None, "vllm:prompt_tokens_total 29\n", ""), target=BLIND),
        [],
    ),
    "prefillers computed another's": (
        case(quiet=told(STAYED, prefill="vllm:prompt_tokens_total 30\n", decode="")),
        [],
    ),
    "an unread worker is said once": (
        case(
            replace(reading(None), unreadable={PREFILLER: "no answer"}, workers={}),
            quiet=unread(PREFILLER),
            target=BLIND,
        ),
        ["worker-unreadable"],
    ),
    "never, and a hand-off failed": (
        case(fallback("notification_timeout"), target=NEVER),
        ["threshold-inverted"],
    ),
    "never, and prefillers compute for others": (
        case(told(STAYED.replace("below_threshold", "threshold_never")), target=NEVER),
        [],
    ),
}

KEPT: dict[str, tuple[Case, list[str]]] = {
    "below the router's threshold": (case(direct("below_threshold")), ["threshold-too-high"]),
    "the router's threshold is never": (case(direct("threshold_never")), ["threshold-too-high"]),
    "too long for the buffer": (case(direct("exceeds_buffer")), ["buffer-too-small"]),
    "the buffer is full": (case(direct("no_buffer_room")), ["buffer-too-small"]),
    "no prefiller": (case(direct("no_prefiller")), ["no-prefiller"]),
    "no prefiller answers": (case(fallback("prefill_unreachable")), ["no-prefiller"]),
    "one was decoded directly, and one handed over": (
        case(told(WELL_ROUTER + STAYED.replace("below_threshold", "tokenize_failed"))),
        [],
    ),
}


def with_buffer(router: str, chunks: int | None) -> Reading:
    return told(
        router + (f'dpd_router_buffer_chunks{{decoder="d"}} {chunks}\n' if chunks is not None else "")
    )


HANDED: dict[str, tuple[Case, list[str]]] = {
    "the router's buffer is another": (
        case(with_buffer(TIMEOUT, 100), target=replace(TARGET, buffer_chunks=3)),
        ["buffer-unlike-deployed"],
    ),
    "it is the same": (
        case(with_buffer(TIMEOUT, 3), target=replace(TARGET, buffer_chunks=3)),
        ["transfer-failed"],
    ),
    "the router does not say it": (
        case(with_buffer(TIMEOUT, None), target=replace(TARGET, buffer_chunks=3)),
        ["transfer-failed"],
    ),
    "nobody knows what was deployed": (case(with_buffer(TIMEOUT, 100)), ["transfer-failed"]),
    "it is another, and all arrives": (
        case(with_buffer(WELL_ROUTER, 100), target=replace(TARGET, buffer_chunks=3)),
        [],
    ),
    "LMCache got nothing of what was computed": (
        case(told(TIMEOUT, prefill="vllm:prompt_tokens_total 4608\n")),
        ["wrong-role-prefill"],
    ),
    "nothing was computed": (case(told(TIMEOUT, prefill="lmcache:x 1\n")), ["transfer-failed"]),
    "LMCache does not show what it got of a hand-off that was used": (
        case(told(WELL_ROUTER, prefill="vllm:prompt_tokens_total 4608\n")),
        [],
    ),
    "NixlConnector has nothing to do with LMCache": (
        case(
            told(WELL_ROUTER, prefill="vllm:prompt_tokens_total 4608\n", decode=OLD_HITS),
            target=NIXL,
        ),
        [],
    ),
    "decoders show no LMCache": (
        case(told(TIMEOUT, decode="vllm:prompt_tokens_total 1\n")),
        ["wrong-role-decode"],
    ),
    "neither do prefillers": (
        case(told(TIMEOUT, prefill="vllm:num_requests_waiting 0\n", decode="vllm:prompt_tokens_total 1\n")),
        ["transfer-failed"],
    ),
    "it had arrived when it was cleared away": (
        case(told(TIMEOUT + 'dpd_router_drains_total{result="hit"} 1\n')),
        ["notification-lost"],
    ),
    "it had not": (
        case(told(TIMEOUT + 'dpd_router_drains_total{result="miss"} 1\n')),
        ["transfer-failed"],
    ),
    "what is cleared away is older": (
        case(told(WELL_ROUTER + 'dpd_router_drains_total{result="hit"} 1\n')),
        [],
    ),
    "NixlConnector's transfers failed": (
        case(told(WELL_ROUTER, decode=WELL_DECODE + "vllm:nixl_num_failed_transfers_total 1\n"), target=NIXL),
        ["transfer-failed"],
    ),
    "another connector's counters say nothing": (
        case(told(WELL_ROUTER, decode=WELL_DECODE + "vllm:nixl_num_failed_transfers_total 1\n")),
        [],
    ),
    "NixlConnector's decoders found nothing": (
        case(told(WELL_ROUTER, decode="vllm:prompt_tokens_total 4608\n"), target=NIXL),
        ["keys-differ"],
    ),
    "decoders found just enough": (
        case(
            reading(None, decode=WELL_DECODE.replace("hits_total 4608", "hits_total 3687")),
            quiet=SHORT_UNSEEN,
            target=BLIND,
        ),
        [],
    ),
    "decoders found a little less": (
        case(
            reading(None, decode=WELL_DECODE.replace("hits_total 4608", "hits_total 3686")),
            quiet=SHORT_UNSEEN,
            target=BLIND,
        ),
        ["partial-hit"],
    ),
    "prefillers computed just half": (
        case(reading(None, prefill=WELL_PREFILL.replace("4608", "2304")), quiet=SHORT_UNSEEN, target=BLIND),
        [],
    ),
    "prefillers computed less than half": (
        case(reading(None, prefill=WELL_PREFILL.replace("4608", "2303")), quiet=SHORT_UNSEEN, target=BLIND),
        ["threshold-too-high"],
    ),
    "a notification is missing": (case(told(WELL_ROUTER.replace("} 8", "} 7"))), ["too-few-notifications"]),
    "a notification is missing while others are there": (
        case(told(WELL_ROUTER.replace('threshold"} 1', 'threshold"} 2').replace("} 8", "} 15"))),
        [],
    ),
    "the router saw a miss, whatever decoders report": (
        case(told(WELL_ROUTER.replace("full", "miss"))),
        ["keys-differ"],
    ),
    "a reason that was never counted is none": (
        case(told(STAYED.replace("below_threshold", "tokenize_failed").replace("} 1", "} 0"), prefill="")),
        ["nothing-moved"],
    ),
    "the router saw a full hit, and counters of decoders lag behind": (
        case(told(WELL_ROUTER, decode=WELL_DECODE.replace("hits_total 4608", "hits_total 3000"))),
        [],
    ),
    "the router learned nothing, and decoders report it": (
        case(told(UNREPORTED, decode=OLD_HITS + "lmcache:num_hit_tokens_total 1\n")),
        [],
    ),
    "the router learned nothing, and LMCache loaded it": (
        case(told(UNREPORTED, decode="lmcache:num_lookup_tokens_total 1\nlmcache:num_hit_tokens_total 1\n")),
        [],
    ),
    "the router learned nothing, and NixlConnector pulled it": (
        case(
            told(
                UNREPORTED, decode="lmcache:num_lookup_tokens_total 1\nvllm:nixl_xfer_time_seconds_count 1\n"
            )
        ),
        [],
    ),
    "LMCache was asked for nothing": (
        case(told(WELL_ROUTER, decode="vllm:prompt_tokens_total 4608\n")),
        ["wrong-role-decode"],
    ),
    "LMCache was asked for nothing, and had no time to show it": (
        case(told(WELL_ROUTER, decode="vllm:prompt_tokens_total 4608\n"), settled=False),
        ["out-of-time"],
    ),
    "nothing was decided, whatever prefillers did that cannot be read": (
        case(replace(told("", decode=""), workers={}, unreadable={PREFILLER: "no answer"})),
        ["nothing-moved"],
    ),
    "NixlConnector sends no notifications": (
        case(told(WELL_ROUTER.replace("} 8", "} 0"), decode=OLD_HITS), target=NIXL),
        [],
    ),
    "nothing was decided": (case(told("", decode="", prefill="")), ["nothing-moved"]),
}

FABRIC: dict[str, tuple[Case, list[str]]] = {
    "half of the KV cache crossed": (
        case(reading(efa_bytes=0.5 * 10 * 4608), target=replace(TARGET, kv_bytes_per_token=10)),
        [],
    ),
    "less than half of it": (
        case(reading(efa_bytes=0.5 * 10 * 4608 - 1), target=replace(TARGET, kv_bytes_per_token=10)),
        ["silent-tcp"],
    ),
    "nobody knows how much it is, and something crossed": (case(reading(efa_bytes=1)), []),
    "nothing crossed, and nothing has to": (
        case(reading(efa_bytes=0), target=replace(TARGET, expects_efa=False)),
        [],
    ),
    "nothing crossed, because nothing was used": (
        case(
            reading(
                WELL_ROUTER.replace("full", "miss"), decode=WELL_DECODE.replace(OLD_HITS, ""), efa_bytes=0
            )
        ),
        ["keys-differ"],
    ),
    "nobody counts, and nothing was used": (
        case(
            reading(WELL_ROUTER.replace("full", "miss"), decode=WELL_DECODE.replace(OLD_HITS, "")),
            target=replace(TARGET, efa_exporters_missing="no exporter's pod runs there"),
        ),
        ["keys-differ"],
    ),
    "as fast as AWS wants it": (case(retrieved=retrieved(1.0)), []),
    "a little slower": (case(retrieved=retrieved(0.99)), ["slow-transfer"]),
    "the fastest counts": (case(retrieved=retrieved(0.2, None, 1.5)), []),
    "a retrieval of nothing is never fast": (case(retrieved=retrieved(0.1, tokens=0)), []),
    "slow, and what crossed was counted": (case(reading(efa_bytes=1e9), retrieved=retrieved(0.2)), []),
    "slow, and there is no EFA": (
        case(retrieved=retrieved(0.2), target=replace(TARGET, expects_efa=False)),
        [],
    ),
}

ALL = {
    f"{topic}: {name}": given
    for topic, table in (
        ("answers", ANSWERS),
        ("short", SHORT),
        ("kept", KEPT),
        ("handed", HANDED),
        ("fabric", FABRIC),
    )
    for name, given in table.items()
}


@pytest.mark.parametrize("name", ALL)
def test_a_finding_comes_with_its_reason_and_not_beside_it(name: str) -> None:
    given, expected = ALL[name]
    assert found(given) == expected


def says(given: Case) -> str:
    (finding,) = diagnose(given)
    return finding.says


def test_both_reasons_for_a_prompt_below_the_threshold_are_counted_together() -> None:
    both = direct("below_threshold").router, direct("threshold_never").router
    router = Samples({key: value for each in both if each is not None for key, value in each.values.items()})
    assert says(case(replace(direct("x"), router=router))).startswith("2 of 1 prompts")


def test_of_a_prefiller_that_cannot_be_read_nobody_knows_how_many_wait_there() -> None:
    given = case(fallback("prefill_timeout"))
    assert says(given).endswith("none waits at the prefillers")
    unknown = replace(given.busy, workers={}, unreadable={PREFILLER: "no answer within 10 seconds"})
    assert says(replace(given, busy=unknown)).endswith("nobody knows how many wait")


# The run ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("now", [Reading(), reading("dpd_router_other_routers 0\n")], ids=["unread", "alone"])
def test_nobody_is_waited_for_who_is_not_known_to_be_there(
    now: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "read", lambda *_: now)
    said: list[str] = []
    run._await_end_of_others(replace(TARGET, company_seconds=60), said.append)
    assert said == []


def test_prompts_are_counted_together_until_the_counting_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "send", lambda *_: short(words=4608))
    monkeypatch.setattr(run, "read", lambda *_: reading())
    monkeypatch.setattr(run, "waiting_at", lambda *_: 0)
    given = case()
    later = run._with_long_prompts(given, SHORT_UNSEEN, 4608, Deadline(60), lambda _: None)
    assert len(later.long) == 2
    anew = run._with_long_prompts(given, given.now, 4608, Deadline(60), lambda _: None)
    assert len(anew.long) == 1


def test_nobody_waits_where_nobody_was_seen_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "waiting_at", lambda *_: 0)
    monkeypatch.setattr(run, "send", lambda *_: short())
    assert run._sent_and_watched(TARGET, 8, Deadline(60))[1] == 0


def test_as_many_wait_as_waited_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [3, 7, 5]
    over = threading.Event()

    def waiting_at(*_: Any) -> int:
        if len(seen) == 1:
            over.set()
        return seen.pop(0) if seen else 0

    def send(*_: Any) -> Sent:
        over.wait(60)
        return short()

    monkeypatch.setattr(run, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(run, "waiting_at", waiting_at)
    monkeypatch.setattr(run, "send", send)
    assert run._sent_and_watched(TARGET, 8, Deadline(60))[1] == 7


PATIENCE: dict[str, tuple[Case, float]] = {
    "all is there": (case(reading(efa_bytes=1e9)), 0),
    "nothing shall be handed over": (case(told(TIMEOUT), target=NEVER), 0),
    "a hand-off is not cleared away yet": (case(told(TIMEOUT)), TARGET.drain_seconds),
    "it is": (case(told(TIMEOUT + 'dpd_router_drains_total{result="hit"} 1\n')), 0),
    "a hand-off failed, and LMCache does not show what it got": (
        case(told(TIMEOUT.replace("notification_timeout", "decoder_gone"), prefill="")),
        TARGET.statistics_seconds,
    ),
    "handed over, and LMCache does not show it": (
        case(told(WELL_ROUTER, prefill="")),
        TARGET.statistics_seconds,
    ),
    "handed over, and decoders do not report it": (
        case(told(WELL_ROUTER, decode="")),
        TARGET.statistics_seconds,
    ),
    "handed over, and decoders do not load it": (
        case(told(WELL_ROUTER, decode=OLD_HITS)),
        TARGET.statistics_seconds,
    ),
    "nothing was handed over": (case(told("", prefill="", decode="")), 0),
    "answered behind AWS's router, and not reported": (
        case(reading(None, decode=""), target=BLIND),
        TARGET.statistics_seconds,
    ),
    "not answered there": (case(reading(None, decode=""), target=BLIND, long=NO_ANSWER), 0),
    "the EFA moved too little": (case(reading(efa_bytes=0)), TARGET.statistics_seconds),
    "it need not move": (case(reading(efa_bytes=0), target=replace(TARGET, expects_efa=False)), 0),
    "a Prometheus shows it later": (
        case(reading(efa_bytes=0), target=replace(TARGET, efa_query_url="http://p")),
        run.QUERY_SECONDS,
    ),
    "exporters show it at once": (
        case(
            reading(efa_bytes=0),
            target=replace(TARGET, efa_query_url="http://p", efa_exporters=("http://e",)),
        ),
        TARGET.statistics_seconds,
    ),
    "NixlConnector stores nothing in LMCache": (
        case(told(WELL_ROUTER, prefill="", decode=OLD_HITS), target=NIXL),
        0,
    ),
}


@pytest.mark.parametrize("name", PATIENCE)
def test_counters_are_awaited_that_would_tell_more(name: str) -> None:
    given, seconds = PATIENCE[name]
    assert run._patience(given) == seconds


# More prompts ----------------------------------------------------------------------------------------------------------

IDLE = reading(decode="")


def long(**changes: Any) -> tuple[Sent, ...]:
    return (replace(short(words=4608, prompt_tokens=4608), **changes),)


@pytest.mark.parametrize(
    ("given", "too_short"),
    [
        (case(), False),
        (case(long=long(prompt_tokens=4096)), False),
        (case(long=long(prompt_tokens=4095)), True),
        (case(long=long(prompt_tokens=4095), target=NEVER), False),
        (case(long=NO_ANSWER), False),
    ],
)
def test_a_prompt_is_too_short_that_was_answered_and_does_not_reach_the_threshold(
    given: Case, too_short: bool
) -> None:
    assert given.is_too_short is too_short


@pytest.mark.parametrize(
    ("given", "too_late"),
    [
        (case(), False),
        (case(told(TIMEOUT)), True),
        (case(fallback("prefill_timeout")), True),
        (case(fallback("decoder_gone")), False),
        (case(told(TIMEOUT + WENT)), False),
        (case(told(TIMEOUT + STAYED)), False),
        (case(told(TIMEOUT), long=NO_ANSWER), False),
    ],
)
def test_a_hand_off_came_too_late_by_time_alone(given: Case, too_late: bool) -> None:
    assert given.came_too_late is too_late


@pytest.mark.parametrize(
    ("given", "worth"),
    [
        (case(), False),
        (case(IDLE), True),
        (case(IDLE, target=NEVER), False),
        (case(IDLE, long=NO_ANSWER), False),
        (case(reading(WELL_ROUTER + STAYED, decode="")), False),
        (case(reading(WELL_ROUTER + TIMEOUT, decode="")), False),
        (case(fallback("first_token_text_unknown")), True),
        (case(fallback("decoder_gone")), False),
        (case(told("")), True),
        (case(reading(None), target=BLIND), False),
    ],
)
def test_more_prompts_are_sent_where_they_may_tell_more(given: Case, worth: bool) -> None:
    assert given.is_worth_another_try is worth


@pytest.mark.parametrize(
    ("prefill", "go_on"),
    [
        ("vllm:prompt_tokens_total 1\n", True),
        ("lmcache:num_stored_tokens_total 1\n", True),
        ("vllm:prompt_tokens_total 0\nlmcache:num_stored_tokens_total 0\n", False),
    ],
)
def test_prefills_go_on_where_tokens_are_computed_or_stored(prefill: str, go_on: bool) -> None:
    assert case(reading(prefill=prefill)).prefills_go_on is go_on


def test_what_was_counted_is_ours_where_the_answers_say_so_too() -> None:
    assert found(case(told(TIMEOUT), long=long(decision="fallback"))) == ["transfer-failed"]
    assert found(case(told(TIMEOUT + WELL_ROUTER), long=long(decision="disaggregated"))) == []


def test_nixl_connector_behind_aws_s_router_needs_no_lmcache() -> None:
    busy = reading(None, prefill="vllm:prompt_tokens_total 4608\n", decode=OLD_HITS)
    target = replace(NIXL, router_metrics=False)
    assert found(case(busy, target=target, quiet=SHORT_UNSEEN)) == []
