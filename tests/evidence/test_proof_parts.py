"""Parts of the proof that need no cluster: limits of time, parsing, sizes, and failures that no scenario can bring about."""

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from dpd_router.generation import DECISION_HEADER as ROUTERS_HEADER
from hyperpod_dpd.evidence.proof import Target, observe, prompts, prove, run
from hyperpod_dpd.evidence.proof.case import Case
from hyperpod_dpd.evidence.proof.connection import Tried, attempt
from hyperpod_dpd.evidence.proof.failures import FAILURES, diagnose
from hyperpod_dpd.evidence.proof.logs import Retrieved, retrievals
from hyperpod_dpd.evidence.proof.observe import Reading, read
from hyperpod_dpd.evidence.proof.report import notes
from hyperpod_dpd.evidence.proof.samples import Samples
from hyperpod_dpd.evidence.proof.send import DECISION_HEADER, Sent, send
from hyperpod_dpd.evidence.proof.signing import signed_headers
from hyperpod_dpd.evidence.proof.web import Deadline, NoAnswerError, ask
from hyperpod_dpd.rules.registry import rules
from tests.evidence.cases import (
    DECODER,
    EXPORTER,
    PREFILLER,
    TARGET,
    WELL_DECODE,
    WELL_ROUTER,
    case,
    direct,
    fallback,
    found,
    reading,
    refused,
)
from tests.evidence.scenarios import SCENARIOS
from tests.support.deployments import ROOT

LIMIT_SECONDS = 60
"""Ends a test that would hang, and is far more than what a machine stands still for."""

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve every connection with `answer` until the block ends."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=16)
    connections: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            connections.append(connection)
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        # unlike a close, it wakes the thread
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        for connection in connections:
            connection.close()


def silent(connection: socket.socket) -> None:
    connection.recv(65536)


def trickles(connection: socket.socket) -> None:
    connection.recv(65536)
    try:
        connection.sendall(HEAD)
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)
    except OSError:
        return


def replies(connection: socket.socket, body: str) -> None:
    connection.recv(65536)
    data = body.encode()
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
    connection.close()


def talks_otherwise(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"SSH-2.0-OpenSSH\r\n")
    connection.close()


@pytest.mark.parametrize("answer", [silent, trickles])
def test_a_server_that_does_not_finish_costs_no_more_than_the_limit(answer: Any) -> None:
    with server(answer) as url:
        began = time.monotonic()
        with pytest.raises(NoAnswerError, match=r"no answer within 1 seconds"):
            ask(url, seconds=0.6)
        assert time.monotonic() - began < LIMIT_SECONDS


def test_a_name_that_nobody_resolves_costs_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def stuck(*_: Any, **__: Any) -> Any:
        released.wait(2 * LIMIT_SECONDS)
        raise socket.gaierror("released")

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    began = time.monotonic()
    with pytest.raises(NoAnswerError, match="no answer within"):
        ask("http://router.system.svc:8081", seconds=0.3)
    assert time.monotonic() - began < LIMIT_SECONDS
    released.set()


def test_something_that_is_no_web_server_is_no_answer() -> None:
    with server(talks_otherwise) as url, pytest.raises(NoAnswerError):
        ask(url, seconds=LIMIT_SECONDS)


@pytest.mark.parametrize("answer", [silent, trickles, talks_otherwise])
def test_a_proof_of_anything_ends_in_time_with_a_verdict(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (observe, run):
        # what a reading without a limit of its own would take
        monkeypatch.setattr(module, "READ_SECONDS", 2 * LIMIT_SECONDS)
    with server(answer) as url:
        target = Target(
            url=url, model="m", prefillers=(url,), decoders=(url,), threshold_tokens=512, timeout_seconds=2
        )
        began = time.monotonic()
        result = prove(target)
        assert time.monotonic() - began < LIMIT_SECONDS
    assert not result.proved
    assert result.findings


def test_an_interruption_does_not_wait_for_a_worker_that_hangs() -> None:
    asked = threading.Event()

    def hangs(connection: socket.socket) -> None:
        connection.recv(65536)
        asked.set()

    with server(hangs) as url:
        # with a limit of ten minutes and nobody who answers, a reading takes as long as it may
        program = (
            "from hyperpod_dpd.cli import main\n"
            "from hyperpod_dpd.evidence.proof import observe, run\n"
            f"observe.READ_SECONDS = run.READ_SECONDS = {2 * LIMIT_SECONDS}\n"
            "main()\n"
        )
        process = subprocess.Popen(
            [
                sys.executable, "-c", program, "proof", str(ROOT / "deployments/llama-3.3-70b-p5.yaml"),
                "--url", url, "--prefiller", url, "--decoder", url, "--timeout", "600",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert asked.wait(LIMIT_SECONDS)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECONDS) == 130


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> str:
    """A name that nobody has, as a resolver says it at once: without a network a real one takes its time."""
    name, resolve = "no-such-host.invalid", socket.getaddrinfo

    def answer(host: Any, *more: Any, **options: Any) -> Any:
        if host == name:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return name


def test_addresses_that_are_none_are_no_answer(nowhere: str) -> None:
    for url in ("", "router:8081", "file:///etc/passwd", "http://", f"http://{nowhere}"):
        with pytest.raises(NoAnswerError):
            ask(url, seconds=LIMIT_SECONDS)


def test_no_time_is_no_answer() -> None:
    with pytest.raises(NoAnswerError, match="no time was left"):
        ask("http://127.0.0.1:1", seconds=Deadline(0).left)


def test_a_connection_is_opened_refused_or_blocked(nowhere: str) -> None:
    listening = socket.create_server(("127.0.0.1", 0), backlog=0)
    port = listening.getsockname()[1]
    assert attempt(f"127.0.0.1:{port}", Deadline(LIMIT_SECONDS)) is Tried.OPENED
    # whoever is not accepted fills the backlog, and further packets are dropped as a policy drops them
    waiting = [socket.socket() for _ in range(8)]
    for each in waiting:
        each.setblocking(False)
        each.connect_ex(("127.0.0.1", port))
    assert attempt(f"127.0.0.1:{port}", Deadline(0.5)) is Tried.BLOCKED
    for each in (*waiting, listening):
        each.close()
    assert attempt(f"127.0.0.1:{port}", Deadline(LIMIT_SECONDS)) is Tried.REFUSED
    assert attempt(f"{nowhere}:7300", Deadline(LIMIT_SECONDS)) is Tried.NAME_UNKNOWN


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "[req_id=cmpl-1] Retrieved 4096 out of 4096 required tokens (from 4096 total tokens). size: 1 gb, throughput: 88.0000 GB/s;",
            Retrieved(tokens=4096, wanted=4096, gb_per_second=88.0),
        ),
        ("Retrieved 0 out of 4096 required tokens", Retrieved(tokens=0, wanted=4096, gb_per_second=None)),
        (
            "Retrieved 256 out of total 300 out of total 300 tokens",
            Retrieved(tokens=256, wanted=300, gb_per_second=None),
        ),
    ],
)
def test_retrievals_are_read_out_of_lmcaches_log(line: str, expected: Retrieved) -> None:
    assert retrievals(f"INFO 12:00\n{line}\nsomething else") == (expected,)


def test_counters_that_began_anew_count_from_zero() -> None:
    before = Samples.read('a_total{x="1"} 10\nb_total 5\n')
    after = Samples.read('a_total{x="1"} 3\nb_total 7\nc_total 1\n')
    grown = after.since(before)
    assert (grown.total("a_total"), grown.total("b_total"), grown.total("c_total")) == (3, 2, 1)


def test_what_is_not_metrics_is_refused() -> None:
    with pytest.raises(ValueError, match=r".+"):
        Samples.read("<html>not found</html>")


def test_a_long_prompt_reaches_the_threshold_by_words_and_by_characters() -> None:
    words = prompts.long_words(4096, chunk_tokens=256, longest_tokens=16_384, tokens_per_word=1.5)
    assert words == 4096 + 512
    assert len(prompts.text(words)) / 4 >= 4096


def test_a_long_prompt_stays_within_the_context() -> None:
    words = prompts.long_words(8000, chunk_tokens=256, longest_tokens=8192, tokens_per_word=2.0)
    assert words * 2.0 <= 8192 - prompts.CONTEXT_MARGIN_TOKENS


@pytest.mark.parametrize(("threshold", "words"), [(None, 96), (0, 8), (512, 64), (4096, 96)])
def test_a_short_prompt_stays_below_the_threshold_at_eight_tokens_a_word(
    threshold: int | None, words: int
) -> None:
    assert prompts.short_words(threshold) == words
    assert not threshold or words * 8 <= threshold


def test_two_prompts_have_nothing_in_common_that_a_cache_could_have() -> None:
    assert prompts.text(64)[:64] != prompts.text(64)[:64]


def test_the_header_is_the_routers() -> None:
    assert DECISION_HEADER == ROUTERS_HEADER


def test_a_proof_waits_for_the_router_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    others = iter([1, 1, 0])
    seen: list[int] = []

    def read(*_: Any) -> Reading:
        seen.append(next(others, 0))
        return reading(f"dpd_router_other_routers {seen[-1]}\n")

    monkeypatch.setattr(run, "read", read)
    monkeypatch.setattr(run, "POLL_SECONDS", 0.001)
    said: list[str] = []
    with server(talks_otherwise) as url:
        prove(
            replace(TARGET, url=url, company_seconds=30, timeout_seconds=2, request_seconds=1),
            say=said.append,
        )
    assert said[0] == "waiting for another router to end"
    assert seen[:4] == [1, 1, 0, 0]


def test_a_router_that_never_ends_is_waited_for_no_longer_than_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "read", lambda *_: reading("dpd_router_other_routers 1\n"))
    monkeypatch.setattr(run, "POLL_SECONDS", 0.01)
    began = time.monotonic()
    with server(talks_otherwise) as url:
        result = prove(replace(TARGET, url=url, company_seconds=0.2, timeout_seconds=2, request_seconds=1))
    assert not result.proved
    assert time.monotonic() - began < LIMIT_SECONDS


# Failures by hand ------------------------------------------------------------------------------------------------------

BY_HAND: dict[str, Case] = {
    "prompt-refused": case(long=refused(404)),
    "router-full": case(long=refused(429)),
    "threshold-out-of-reach": case(
        direct("below_threshold"),
        long=(Sent(words=3000, seconds=1, status=200, prompt_tokens=4000, decision="direct"),),
    ),
    "no-answer": case(long=(Sent(words=1, seconds=9, problem="no answer within 9 seconds"),)),
    "bad-answer": case(long=refused(500)),
    "buffer-lost": case(direct("buffer_leaked")),
    "pair-broken": case(direct("pair_broken")),
    "other-router": case(direct("other_router")),
    "models-differ": case(direct("model_not_on_both_roles")),
    "not-handed-over": case(direct("tokenize_failed")),
    "prefill-failed": case(fallback("prefill_rejected")),
    "decoder-died": case(fallback("decoder_gone")),
    "too-few-notifications": case(reading(WELL_ROUTER.replace("} 8", "} 1"))),
    "partial-hit": case(reading(WELL_ROUTER.replace("full", "partial"))),
    "use-unknown": case(
        reading(WELL_ROUTER.replace("full", "unreported"), decode="lmcache:num_lookup_tokens_total 4609\n")
    ),
    "short-unknown": case(quiet=Reading(unreadable={PREFILLER: "no answer within 10 seconds"})),
    "out-of-time": case(
        reading(decode=WELL_DECODE.replace("lmcache:num_hit_tokens_total 36864\n", "")), settled=False
    ),
    "router-unreadable": case(reading(router=None), quiet=reading(None, "", "")),
    "nothing-moved": case(reading("", prefill="", decode="")),
    "worker-unreadable": case(
        replace(reading(), unreadable={DECODER: "no answer within 10 seconds"}),
    ),
    "slow-transfer": case(retrieved=(Retrieved(tokens=4608, wanted=4608, gb_per_second=0.32),)),
    "efa-unread": case(
        replace(reading(), unreadable={EXPORTER: "no answer within 10 seconds"}),
        target=replace(TARGET, efa_exporters=(EXPORTER,)),
    ),
    "policies-not-enforced": case(target=replace(TARGET, forbidden="10.0.0.2:7300"), tried=Tried.REFUSED),
}


def test_a_well_counted_hand_off_is_no_failure() -> None:
    assert found(case()) == []
    assert found(case(reading(efa_bytes=1e9), target=replace(TARGET, kv_bytes_per_token=327_680))) == []
    blind = replace(TARGET, router_metrics=False)
    assert found(case(reading(router=None), quiet=reading(None, "", ""), target=blind)) == []
    assert found(case(tried=Tried.BLOCKED)) == []


@pytest.mark.parametrize("name", BY_HAND)
def test_the_failure_is_told_alone(name: str) -> None:
    assert found(BY_HAND[name]) == [name]


def test_where_nothing_shall_be_handed_over_a_hand_off_is_the_failure() -> None:
    never = replace(TARGET, threshold_tokens=None)
    assert found(case(direct("threshold_never"), target=never)) == []
    assert found(case(target=never)) == ["threshold-inverted"]


def test_every_failure_is_brought_about() -> None:
    told = {scenario.finding for scenario in SCENARIOS.values()} | set(BY_HAND)
    assert {failure.id for failure in FAILURES} == told


def test_every_rule_and_runbook_that_a_failure_names_exists() -> None:
    known = set(rules())
    for failure in FAILURES:
        assert set(failure.rules) <= known, failure.id
        if failure.runbook:
            assert (ROOT / f"docs/runbooks/{failure.runbook}.md").is_file(), failure.id


def test_without_efa_counters_a_proof_says_what_it_does_not_know() -> None:
    assert found(case()) == []
    assert list(notes(case())) == ["nobody counted EFA traffic, so the KV cache may have crossed TCP"]
    assert list(notes(case(reading(efa_bytes=1e9)))) == []


def test_exporters_that_were_deployed_have_to_be_there() -> None:
    missing = "no exporter's pod runs on the 1 nodes of the prefillers"
    assert found(case(target=replace(TARGET, efa_exporters_missing=missing))) == ["efa-unread"]
    tcp = replace(TARGET, efa_exporters_missing=missing, expects_efa=False)
    assert found(case(target=tcp)) == []


@pytest.mark.parametrize(
    "usage",
    [
        '{"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": []}}',
        '{"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": "many"}}',
        '{"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 1e999}}',
        '{"prompt_tokens": 100, "prompt_tokens_details": "none"}',
        '{"prompt_tokens": 1e999}',
        '{"prompt_tokens": -1}',
        f'{{"prompt_tokens": {"9" * 400}}}',
        "[" * 100_000,
    ],
    ids=lambda usage: usage[:70],
)
def test_numbers_that_cannot_be_are_no_answer_of_the_api(usage: str) -> None:
    def answer(connection: socket.socket) -> None:
        replies(connection, f'{{"choices": [{{"text": "x"}}], "usage": {usage}}}')

    with server(answer) as url:
        sent = send(replace(TARGET, url=url), 8, Deadline(LIMIT_SECONDS))
    assert sent.problem.startswith("not an answer of the API")


@pytest.mark.parametrize(
    "said",
    [
        "{}",
        "[]",
        '{"data": {"result": 5}}',
        '{"data": {"result": [{}]}}',
        '{"data": {"result": []}}',
        '{"data": {"result": [{"value": [1, "NaN"]}]}}',
        "<html>",
        "[" * 100_000,
    ],
    ids=lambda said: said[:40],
)
def test_a_prometheus_that_answers_otherwise_is_named_and_counts_nothing(said: str) -> None:
    with server(lambda connection: replies(connection, said)) as url:
        target = replace(TARGET, url=url, prefillers=(), decoders=(), efa_query_url=f"{url}/workspace")
        now = read(replace(target, router_metrics=False), Deadline(LIMIT_SECONDS))
    assert now.efa_bytes is None
    assert list(now.unreadable) == [f"{url}/workspace"]


def test_credentials_that_cannot_be_had_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody-made-this-one")
    with pytest.raises(OSError, match=r"no AWS credentials to sign with: .*nobody-made-this-one"):
        signed_headers("https://workspace.example/api", region="us-east-1")


@pytest.mark.parametrize("text", ['a_total{x="1", ="z\\"q"}}1.0\n', 'a{b="c 1\n', "a one\n"])
def test_text_that_the_parser_stumbles_over_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not the text format of Prometheus: "):
        Samples.read(text)


def test_what_is_no_finite_number_counts_nothing() -> None:
    samples = Samples.read('a{x="1"} +Inf\na{x="2"} NaN\na{x="3"} 2\n')
    assert samples.total("a") == 2


def test_a_finding_is_one_line_with_rule_cause_and_help() -> None:
    (finding,) = diagnose(BY_HAND["partial-hit"])
    assert re.match(r"DPD-SRV-116 .*partial-hit .* likely cause: .* help: ", str(finding))
    assert "\n" not in str(finding)


def test_requests_of_others_do_not_accuse_a_prompt_that_was_handed_over() -> None:
    others = 'dpd_router_decisions_total{decision="direct",reason="below_threshold"} 40\n'
    ours = (Sent(words=4608, seconds=1, status=200, prompt_tokens=4608, decision="disaggregated"),)
    busy = case(reading(WELL_ROUTER + others), long=ours, target=replace(TARGET, expects_efa=False))
    assert found(busy) == []
    assert list(notes(busy)) == ["40 other requests ran meanwhile, and the counters are of all"]
