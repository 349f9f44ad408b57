"""A proof that runs out of time: what could not be read or tried any more is no evidence, in either direction."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_dpd.evidence.proof import Target, prove, run, web
from hyperpod_dpd.evidence.proof.connection import Tried
from hyperpod_dpd.evidence.proof.web import Answer, Deadline, NoAnswerError, ask

THRESHOLD_TOKENS = 512

TIMEOUT_SECONDS = 600.0
"""Of a proof here: more than any machine stands still for."""


@dataclass
class Deployment:
    """An endpoint, a prefiller and a decoder that computes everything again, all at one address.

    Attributes:
        readings: times that the prefiller can be read after a long prompt; then it says nothing any more, and time passes.
        unread: which of all readings fails, the first being 0; None: none.
        time_passes: is called when it does.
    """

    readings: int = 1000
    unread: int | None = None
    url: str = ""
    time_passes: Callable[[], None] = lambda: None
    prefilled_tokens: int = 0
    read: int = 0
    read_after_prompt: int = 0

    def target(self, **changes: Any) -> Target:
        given: dict[str, Any] = {
            "url": self.url,
            "model": "m",
            "prefillers": (f"{self.url}/prefiller",),
            "decoders": (f"{self.url}/decoder",),
            "threshold_tokens": THRESHOLD_TOKENS,
            "router_metrics": False,
            "expects_efa": False,
            "statistics_seconds": 60.0,
            "timeout_seconds": TIMEOUT_SECONDS,
            "request_seconds": TIMEOUT_SECONDS,
        }
        return Target(**{**given, **changes})

    def prefill(self, tokens: int) -> None:
        """Compute a prompt."""
        if tokens >= THRESHOLD_TOKENS:
            self.prefilled_tokens += tokens

    def counters(self, path: str) -> str | None:
        """Return the counters of a worker, which began long before the proof; None where they cannot be had."""
        tokens = 1_000_000 + self.prefilled_tokens
        if path.startswith("/decoder"):
            return f"vllm:prompt_tokens_total {tokens}\nlmcache:num_lookup_tokens_total {tokens}\n"
        self.read += 1
        self.read_after_prompt += self.prefilled_tokens > 0
        if self.read_after_prompt > self.readings:
            self.time_passes()
            return None
        if self.read - 1 == self.unread:
            return None
        return f"vllm:prompt_tokens_total {tokens}\nlmcache:num_stored_tokens_total {tokens}\n"


@contextmanager
def serving(deployment: Deployment) -> Iterator[Deployment]:
    """Serve a deployment until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            counters = deployment.counters(self.path) if self.path.endswith("/metrics") else None
            self._answer(404 if counters is None else 200, counters or "")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            tokens = len(body["prompt"].split())
            usage = {"prompt_tokens": tokens, "completion_tokens": body["max_tokens"]}
            deployment.prefill(tokens)
            self._answer(200, json.dumps({"choices": [{"text": "x"}], "usage": usage}))

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_arguments: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_arguments: Any) -> None:
            """A client that has given up is part of these tests."""

    server = Server(("127.0.0.1", 0), Handler)
    deployment.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield deployment
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave only the readings that are counted here: how often a queue is looked at depends on this machine."""
    monkeypatch.setattr(run, "waiting_at", lambda *_: 0)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let seconds pass on the clock of a proof's limits."""
    passed: list[float] = []

    def now() -> float:
        return time.monotonic() + sum(passed)

    monkeypatch.setattr(web, "time", SimpleNamespace(monotonic=now))
    return passed.append


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch, passes: Callable[[float], None]) -> None:
    """Let the endpoint say nothing to long prompts, for as long as it is asked."""

    def asked(url: str, *, seconds: float, body: Any = None, **more: Any) -> Answer:
        if len(body["prompt"].split()) < THRESHOLD_TOKENS:
            return ask(url, seconds=seconds, body=body, **more)
        passes(seconds)
        raise NoAnswerError(f"no answer within {seconds:.0f} seconds")

    monkeypatch.setattr("hyperpod_dpd.evidence.proof.send.ask", asked)


def found(deployment: Deployment, **changes: Any) -> list[str]:
    result = prove(deployment.target(**changes))
    return [finding.id for finding in result.findings]


def test_a_reading_that_the_limit_cuts_off_does_not_hide_what_was_counted(
    passes: Callable[[float], None],
) -> None:
    with serving(Deployment(readings=1, time_passes=partial(passes, TIMEOUT_SECONDS))) as deployment:
        assert found(deployment) == ["keys-differ"]


def test_a_prefiller_that_was_not_read_before_the_prompts_is_named_and_accused_of_nothing() -> None:
    with serving(Deployment(unread=1)) as deployment:
        result = prove(deployment.target(statistics_seconds=0.1))
    assert [finding.id for finding in result.findings] == ["worker-unreadable"]
    assert "`/metrics` answers 404" in result.findings[0].says
    assert result.numbers["tokens computed by prefillers"] == "unknown"
    assert "counters of 0 of 1 prefillers" in result.sources


def test_a_short_prompt_before_which_the_prefiller_was_not_read_is_not_taken_for_local() -> None:
    with serving(Deployment(unread=0)) as deployment:
        assert found(deployment, statistics_seconds=0.1) == ["short-unknown", "keys-differ"]


def test_a_prefiller_that_is_read_a_moment_later_is_judged_by_that() -> None:
    with serving(Deployment(unread=2)) as deployment:
        assert found(deployment, statistics_seconds=0.1) == ["keys-differ"]


@pytest.mark.usefixtures("silent")
def test_an_endpoint_that_says_nothing_until_the_end_is_not_taken_for_one_without_decoders() -> None:
    with serving(Deployment()) as deployment:
        assert found(deployment) == ["no-answer"]


@pytest.mark.usefixtures("silent")
def test_a_forbidden_connection_is_tried_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    left = []

    def attempt(_: str, deadline: Deadline) -> Tried:
        left.append(deadline.left)
        return Tried.BLOCKED

    monkeypatch.setattr(run, "attempt", attempt)
    with serving(Deployment()) as deployment:
        found(deployment, forbidden="127.0.0.1:1")
    # in what is left after such an endpoint, every connection would pass for blocked
    assert min(left) > TIMEOUT_SECONDS / 2
