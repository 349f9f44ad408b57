"""What a proof makes of what it could not read, or read in part only: neither an accusation nor an approval."""

import errno
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_dpd.evidence.proof import run
from hyperpod_dpd.evidence.proof.connection import Tried, attempt
from hyperpod_dpd.evidence.proof.logs import Retrieved, retrievals
from hyperpod_dpd.evidence.proof.observe import EFA_QUERY, Reading, read
from hyperpod_dpd.evidence.proof.report import notes, numbers
from hyperpod_dpd.evidence.proof.samples import Samples
from hyperpod_dpd.evidence.proof.send import Sent
from hyperpod_dpd.evidence.proof.web import Deadline
from tests.evidence.cases import (
    DECODER,
    EXPORTER,
    PREFILLER,
    TARGET,
    WELL_DECODE,
    WELL_PREFILL,
    WELL_ROUTER,
    case,
    found,
    reading,
)
from tests.evidence.web import pages
from tests.support.prometheus import unit_test

OTHER_PREFILLER, OTHER_DECODER, OTHER_EXPORTER = (
    "http://10.0.0.3:8000",
    "http://10.0.0.4:8000",
    "http://10.0.0.3:9119",
)
PROMETHEUS = "http://prometheus:9090"
BLIND = replace(TARGET, router_metrics=False)
"""AWS's router: the workers' counters are the evidence."""

SHORT_UNSEEN = reading(None, "", "")

# Workers ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "decode",
    [
        "vllm:prompt_tokens_total 4608\nlmcache:num_lookup_tokens_total 4609\n",
        "vllm:prompt_tokens_total 4608\n",
        "vllm:prompt_tokens_total 4608\nvllm:external_prefix_cache_hits_total 100\nlmcache:num_hit_tokens_total 800\n",
    ],
    ids=["keys-differ", "wrong-role-decode", "partial-hit"],
)
def test_a_decoder_that_was_not_read_may_be_the_one_that_took_the_prompt_over(decode: str) -> None:
    target = replace(BLIND, decoders=(DECODER, OTHER_DECODER))
    busy = replace(reading(None, decode=decode), unreadable={OTHER_DECODER: "no answer within 10 seconds"})
    assert found(case(busy, target=target, quiet=SHORT_UNSEEN)) == ["worker-unreadable"]


@pytest.mark.parametrize("role", ["prefiller", "decoder"])
def test_without_a_worker_to_read_nothing_is_proved_and_nobody_accused(role: str) -> None:
    none: tuple[str, ...] = ()
    target = replace(BLIND, prefillers=none) if role == "prefiller" else replace(BLIND, decoders=none)
    given = case(reading(None), target=target, quiet=SHORT_UNSEEN)
    assert found(given) == ["worker-unreadable"]
    # the router's word is half of the evidence only
    assert found(case(target=replace(target, router_metrics=True))) == ["worker-unreadable"]


def test_a_page_without_the_workers_counters_is_no_worker_that_computed_nothing() -> None:
    with pages(
        {"/worker/metrics": "up 1\n", "/router/metrics": 'nginx_requests_total{code="200"} 5\n'}
    ) as url:
        target = replace(TARGET, url=f"{url}/router", prefillers=(f"{url}/worker",), decoders=())
        now = read(target, Deadline(60))
    assert now.router is None
    assert now.workers == {}
    assert now.unreadable == {
        f"{url}/worker": "`/metrics` shows no `vllm:prompt_tokens_total`",
        f"{url}/router": "`/metrics` shows no `dpd_router_`",
    }


BEGAN = "process_start_time_seconds {}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("vllm:prompt_tokens_total 9000\n", "vllm:prompt_tokens_total 4608\n"),
        ("vllm:prompt_tokens_total 9000\n", "vllm:num_requests_waiting 0\n"),
        (
            f"vllm:prompt_tokens_total 10\n{BEGAN.format(100)}",
            f"vllm:prompt_tokens_total 4608\n{BEGAN.format(200)}",
        ),
    ],
    ids=["went back", "gone", "began at another time"],
)
def test_a_worker_that_began_anew_is_named_because_a_part_of_its_count_is_lost(
    before: str, after: str
) -> None:
    busy = reading(decode=after).since(reading(decode=before))
    assert DECODER not in busy.workers
    assert "began anew" in busy.unreadable[DECODER]
    assert busy.workers.keys() == {PREFILLER}


def test_a_worker_that_goes_on_is_counted() -> None:
    begin = BEGAN.format(100)
    busy = reading(decode=f"vllm:prompt_tokens_total 4608\n{begin}").since(
        reading(decode=f"vllm:prompt_tokens_total 10\n{begin}")
    )
    assert busy.workers[DECODER].total("vllm:prompt_tokens_total") == 4598
    assert busy.unreadable == {}


def test_a_router_that_began_anew_is_named() -> None:
    more = WELL_ROUTER.replace("} 1\n", "} 7\n")
    busy = replace(reading(WELL_ROUTER), router_url=TARGET.url).since(reading(more))
    assert busy.router is None
    assert found(case(replace(reading(), router=None, unreadable=busy.unreadable))) == ["router-unreadable"]


def test_what_not_every_worker_told_is_no_number() -> None:
    target = replace(TARGET, prefillers=(PREFILLER, OTHER_PREFILLER), decoders=(OTHER_DECODER,))
    told = numbers(case(target=target))
    assert told["tokens computed by prefillers"] == "at least 4608"
    assert told["tokens loaded by decoders"] == "unknown"
    assert numbers(case())["tokens loaded by decoders"] == 36864


# Short prompt ----------------------------------------------------------------------------------------------------------


def test_a_short_prompt_whose_place_nobody_counted_has_not_stayed_local() -> None:
    unread = Reading(workers={}, unreadable={PREFILLER: "no answer within 10 seconds"})
    given = case(reading(None), target=BLIND, quiet=unread)
    assert found(given) == ["short-unknown"]
    # a router that says it in its answer needs no counter
    said = Sent(words=24, seconds=0.1, status=200, prompt_tokens=30, decision="direct")
    assert found(replace(given, short=said)) == []


NEVER = replace(TARGET, threshold_tokens=None)


def test_that_nothing_was_handed_over_has_to_be_counted() -> None:
    unread = replace(reading(None), unreadable={TARGET.url: "no answer"}, workers={})
    assert found(case(unread, target=NEVER)) == ["short-unknown"]
    # the prefillers' silence is as good
    quiet = reading(None, "vllm:prompt_tokens_total 0\n")
    assert found(case(quiet, target=replace(NEVER, router_metrics=False), quiet=SHORT_UNSEEN)) == []


@pytest.mark.parametrize("decision", ["", "disaggregated"])
def test_a_hand_off_that_should_not_be_is_seen_without_the_routers_counters(decision: str) -> None:
    long = (Sent(words=4608, seconds=1, status=200, prompt_tokens=4608, decision=decision),)
    prefill = "vllm:prompt_tokens_total 0\n" if decision else WELL_PREFILL
    given = case(
        reading(None, prefill),
        target=replace(NEVER, router_metrics=False),
        quiet=SHORT_UNSEEN,
        long=long,
    )
    assert found(given) == ["threshold-inverted"]


# Time ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settled", "unsettled", "prefill", "decode"),
    [
        ("wrong-role-prefill", "out-of-time", "vllm:prompt_tokens_total 4608\n", WELL_DECODE),
        ("wrong-role-decode", "keys-differ", WELL_PREFILL, "vllm:prompt_tokens_total 4608\n"),
        (
            "reported-not-loaded",
            "out-of-time",
            WELL_PREFILL,
            "vllm:prompt_tokens_total 4608\nvllm:external_prefix_cache_hits_total 4608\n",
        ),
    ],
)
def test_counters_that_come_late_accuse_only_whoever_had_the_time(
    settled: str, unsettled: str, prefill: str, decode: str
) -> None:
    busy = reading(None, prefill, decode)
    assert found(case(busy, target=BLIND, quiet=SHORT_UNSEEN)) == [settled]
    assert found(case(busy, target=BLIND, quiet=SHORT_UNSEEN, settled=False)) == [unsettled]


@pytest.mark.parametrize(
    ("statistics_seconds", "limit_seconds", "settled"), [(0.02, 60.0, True), (60.0, 0.2, False)]
)
def test_a_limit_that_ends_before_the_patience_does_is_noted(
    statistics_seconds: float, limit_seconds: float, settled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_loaded = reading(decode="vllm:external_prefix_cache_hits_total 4608\n")
    monkeypatch.setattr(run, "read", lambda *_: not_loaded)
    monkeypatch.setattr(run, "POLL_SECONDS", 0.01)
    given = case(not_loaded, target=replace(TARGET, statistics_seconds=statistics_seconds, expects_efa=False))
    assert run._settled(given, reading("", "", ""), Deadline(limit_seconds)).settled is settled


def test_a_hand_off_that_the_router_does_not_judge_needs_the_workers_word() -> None:
    silent = "vllm:prompt_tokens_total 4608\nlmcache:num_lookup_tokens_total 4609\n"
    no_hits = WELL_ROUTER.replace('dpd_router_handoff_hits_total{result="full"} 1\n', "")
    assert found(case(reading(no_hits, decode=silent))) == ["use-unknown"]
    assert found(case(reading(no_hits))) == []


# Fabric ----------------------------------------------------------------------------------------------------------------


def counted(**bytes_by_device: float) -> Samples:
    return Samples.read(
        "".join(f'node_amazonefa_tx_bytes{{device="{name}"}} {n}\n' for name, n in bytes_by_device.items())
    )


def test_an_exporter_that_was_read_only_afterwards_proves_nothing_with_its_whole_life() -> None:
    before = replace(reading(), efa={EXPORTER: counted(a=5e12)}, unreadable={OTHER_EXPORTER: "no answer"})
    after = replace(reading(), efa={EXPORTER: counted(a=5e12), OTHER_EXPORTER: counted(a=7e12)})
    busy = replace(after.since(before), router=reading().router, workers=reading().workers)
    target = replace(TARGET, efa_exporters=(EXPORTER, OTHER_EXPORTER))
    assert busy.efa_bytes == 0
    assert found(case(busy, target=target)) == ["efa-unread"]


def test_an_exporter_that_was_not_read_afterwards_does_not_make_it_tcp() -> None:
    before = replace(reading(), efa={EXPORTER: counted(a=5e12), OTHER_EXPORTER: counted(a=7e12)})
    after = replace(reading(), efa={EXPORTER: counted(a=5e12)}, unreadable={OTHER_EXPORTER: "no answer"})
    busy = replace(after.since(before), router=reading().router, workers=reading().workers)
    target = replace(TARGET, efa_exporters=(EXPORTER, OTHER_EXPORTER))
    assert found(case(busy, target=target)) == ["efa-unread"]


@pytest.mark.parametrize(
    ("before", "after", "finding"),
    [
        ({"a": 1e12}, {"a": 1e12, "b": 9e12}, "silent-tcp"),
        ({"a": 1e12, "b": 9e12}, {"a": 1e12}, "efa-unread"),
        ({"a": 1e12, "b": 9e12}, {"a": 2e12}, None),
    ],
    ids=["comes", "goes", "goes, and enough crossed elsewhere"],
)
def test_a_device_that_comes_or_goes_is_no_traffic(
    before: dict[str, float], after: dict[str, float], finding: str | None
) -> None:
    grown = replace(reading(), efa={PROMETHEUS: counted(**after)}).since(
        replace(reading(), efa={PROMETHEUS: counted(**before)})
    )
    busy = replace(grown, router=reading().router, workers=reading().workers)
    target = replace(TARGET, efa_query_url=PROMETHEUS)
    assert found(case(busy, target=target)) == ([finding] if finding else [])


def test_efa_counters_that_had_no_time_are_not_taken_for_tcp() -> None:
    busy = reading(efa_bytes=0.0)
    assert found(case(busy)) == ["silent-tcp"]
    assert found(case(busy, settled=False)) == ["efa-unread"]


def test_an_exporter_that_is_missing_on_one_node_does_not_make_it_tcp() -> None:
    target = replace(
        TARGET, efa_exporters=(EXPORTER,), efa_exporters_missing="no exporter's pod runs on 1 of the 2 nodes"
    )
    assert found(case(reading(efa_bytes=0.0), target=target)) == ["efa-unread"]
    assert found(case(reading(efa_bytes=1e9), target=target)) == []


def test_a_prometheus_is_read_device_by_device() -> None:
    series = ", ".join(
        f'{{"metric": {{"__name__": "node_amazonefa_{way}_bytes", "device": "{device}"}}, "value": [1, "{n}"]}}'
        for way, device, n in (("tx", "a", 3), ("tx", "b", 4), ("rx", "a", 5))
    )
    with pages({"/api/v1/query": f'{{"data": {{"result": [{series}]}}}}'}) as url:
        target = replace(TARGET, prefillers=(), decoders=(), router_metrics=False, efa_query_url=url)
        now = read(target, Deadline(60))
    assert now.efa_bytes == 12
    assert len(now.efa[url].values) == 3


def test_of_an_exporter_that_is_gone_no_value_is_repeated(tmp_path: Path) -> None:
    gone, there = (
        f'node_amazonefa_{way}_bytes{{device="{name}"}}' for way, name in (("tx", "a"), ("rx", "b"))
    )
    read_now = [{"labels": there, "value": 80}]
    test = {
        "interval": "30s",
        "input_series": [{"series": gone, "values": "0+10x4"}, {"series": there, "values": "0+10x20"}],
        "promql_expr_test": [{"expr": EFA_QUERY, "eval_time": "4m", "exp_samples": read_now}],
    }
    assert unit_test("groups: []\n", [test], tmp_path) == ""


# Policies and logs -----------------------------------------------------------------------------------------------------


def test_a_connection_without_time_is_not_taken_for_blocked() -> None:
    assert attempt("127.0.0.1:1", Deadline(0)) is Tried.IMPOSSIBLE


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (OSError(errno.EMFILE, "too many open files"), Tried.IMPOSSIBLE),
        (OSError(errno.EADDRNOTAVAIL, "no address left"), Tried.IMPOSSIBLE),
        (OSError(errno.EHOSTUNREACH, "no route to host"), Tried.BLOCKED),
    ],
)
def test_only_a_packet_that_was_stopped_is_blocked(
    error: OSError, how: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> socket.socket:
        raise error

    monkeypatch.setattr(socket, "create_connection", fails)
    assert attempt("10.0.0.2:7300", Deadline(60)) is how


def test_what_could_not_be_tried_and_which_pods_have_no_address_is_said() -> None:
    target = replace(TARGET, forbidden="10.0.0.2:7300", without_address=("decode-1",), expects_efa=False)
    assert list(notes(case(target=target, tried=Tried.IMPOSSIBLE))) == [
        "a connection to `10.0.0.2:7300` could not be tried, so nothing is known about the policies",
        "`decode-1` had no address yet: nothing is known about it",
    ]


def test_a_speed_that_is_no_number_is_none() -> None:
    (retrieved,) = retrievals("Retrieved 256 out of 256 tokens. throughput: 1.2.3 GB/s")
    assert retrieved == Retrieved(tokens=256, wanted=256, gb_per_second=None)
