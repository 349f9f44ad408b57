"""Transfers against workers that answer exactly what a test writes: every malformed, missing or broken answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
import zmq
import zmq.asyncio
from aiohttp import web

from dpd_router.config import Strategy, load
from dpd_router.eligibility import Reason
from dpd_router.handoff import TAG, State
from dpd_router.router import Router
from dpd_simulator import SimulatedCluster
from tests.router.support import (
    NEVER_SECONDS,
    PATIENT_FLAGS,
    PATIENT_SECONDS,
    Result,
    Rig,
    prompt,
    serving,
    time_passes,
    until,
)

IDS = prompt(1000)
Answer = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]

USAGE = {"prompt_tokens": 1001, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1000}}


def events(*payloads: Any, done: bool = True) -> Answer:
    """Answer with a stream of events."""

    async def answer(request: web.Request, _: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for payload in payloads:
            text = payload if isinstance(payload, str) else json.dumps(payload)
            await response.write(f"data: {text}\n\n".encode())
        if done:
            await response.write(b"data: [DONE]\n\n")
        return response

    return answer


def whole(body: Any, status: int = 200) -> Answer:
    """Answer with one body."""

    async def answer(_request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
        return web.Response(text=body if isinstance(body, str) else json.dumps(body), status=status)

    return answer


def text(value: str, finish: str | None = None, stop: Any = None) -> dict[str, Any]:
    return {
        "choices": [{"index": 0, "text": value, "finish_reason": finish, "stop_reason": stop}],
        "model": "m",
    }


async def cut(request: web.Request, _: dict[str, Any]) -> web.StreamResponse:
    """End the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def silent(_request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
    """Take the request and never say a word."""
    await asyncio.Event().wait()
    return web.Response()


GOOD_STREAM = events(text(" two"), text(" three", "length"), {"choices": [], "usage": USAGE})
LANDED = whole({**text("x", "length"), "usage": USAGE})
DIRECT = whole({**text("direct", "stop"), "usage": USAGE})


class Workers:
    """One prefiller that always succeeds unless told otherwise, and decoders that follow a script."""

    def __init__(self) -> None:
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._runners: list[web.AppRunner] = []
        self.prefills: list[dict[str, Any]] = []
        self.decodes: list[dict[str, Any]] = []
        self.script: list[Answer] = []
        self.drains: list[dict[str, Any]] = []
        self.drain_script: list[Answer] = []
        self.first: dict[str, Any] = {**text("one", "length"), "kv_transfer_params": {"first_tok": 77}}
        self.prefill_answer: Answer | None = None
        self.notifies = True
        self.silences = 0
        self.accepted: list[str | None] = []

    def connect(self, notification_url: str) -> None:
        self._socket.connect(notification_url)

    async def start(self, host: str, handler: Any) -> str:
        application = web.Application()
        application.router.add_get("/health", self._health)
        application.router.add_get("/v1/models", self._models)
        application.router.add_post("/{path:.*}", handler)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, host, 0).start()
        self._runners.append(runner)
        return f"http://{host}:{runner.addresses[0][1]}"

    async def _health(self, request: web.Request) -> web.Response:
        self.accepted.append(request.headers.get("Accept-Encoding"))
        return web.Response()

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m", "max_model_len": 16384}]})

    async def prefill(self, request: web.Request) -> web.StreamResponse:
        self.accepted.append(request.headers.get("Accept-Encoding"))
        body = await request.json()
        self.prefills.append(body)
        if self.prefill_answer is not None:
            return await self.prefill_answer(request, body)
        if self.notifies:
            handoff = body["kv_transfer_params"]["disagg_spec"]["req_id"]
            await self._socket.send(msgspec.msgpack.encode({"type": "ProxyNotif", "req_id": handoff}))
        return web.json_response(self.first)

    async def decode(self, request: web.Request) -> web.StreamResponse:
        self.accepted.append(request.headers.get("Accept-Encoding"))
        body = await request.json()
        if request.headers["X-Request-Id"].startswith("drain-"):
            self.drains.append(body)
            return await (self.drain_script.pop(0) if self.drain_script else LANDED)(request, body)
        self.decodes.append(body)
        answer = self.script.pop(0) if self.script else DIRECT
        self.silences += answer is silent
        return await answer(request, body)

    async def close(self) -> None:
        for runner in self._runners:
            await runner.cleanup()
        self._context.destroy(linger=0)


Start = Callable[..., Awaitable[tuple[Workers, Rig]]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start scripted workers and a router with the given flags."""
    stack: list[Any] = []

    async def begin(*flags: str, decoders: int = 1) -> tuple[Workers, Rig]:
        cluster = SimulatedCluster()
        host = cluster.router_host
        workers = Workers()
        stack.append(workers.close())
        prefiller = await workers.start("127.0.0.1", workers.prefill)
        urls = [await workers.start("127.0.0.1", workers.decode) for _ in range(decoders)]
        settings = load(
            (
                "--host", host, "--notification-host", host, "--prefillers", prefiller, "--decoders", ",".join(urls),
                "--decoder-buffer-chunks", "8", "--threshold", "512", "--drain-attempts", "2",
                *PATIENT_FLAGS, *flags,
            ),
            {},
        )  # fmt: skip
        running = serving(Router(settings, {}), cluster, workers=1 + decoders)
        rig = await running.__aenter__()
        stack.append(running.__aexit__(None, None, None))
        # after the router is bound: ZeroMQ tries again only after 100 ms
        workers.connect(f"tcp://{host}:7500")
        return workers, rig

    yield begin
    while stack:
        await stack.pop()


async def send(rig: Rig, **fields: Any) -> Result:
    return await rig.complete(IDS, max_tokens=10, **fields)


async def sent_past_silence(rig: Rig, workers: Workers) -> Result:
    """Send a request, and let time pass while a decoder is silent."""
    request = asyncio.create_task(send(rig, stream=True))
    await until(lambda: workers.silences == 1)
    time_passes(PATIENT_SECONDS)
    return await request


async def test_what_prefiller_and_decoder_are_sent(start: Start) -> None:
    workers, rig = await start("--tensor-parallel", "1")
    workers.script = [GOOD_STREAM]
    answer = await send(rig, stop=["xyz"], min_tokens=3, cache_salt="mine", top_p=0.5, user="u", n=1)
    assert answer.text == "one two three"
    (prefill,), (decode,) = workers.prefills, workers.decodes
    handoff = prefill["kv_transfer_params"]["disagg_spec"]["req_id"]
    assert prefill["kv_transfer_params"] == {
        "ret_first_tok": True,
        "disagg_spec": {
            "req_id": handoff,
            "receiver_host": "127.0.0.1",
            "receiver_init_port": [7300],
            "receiver_alloc_port": [7400],
        },
        TAG: handoff,
    }
    assert (prefill["max_tokens"], prefill["max_completion_tokens"], prefill["stream"]) == (1, 1, False)
    assert (prefill["min_tokens"], prefill["prompt"], prefill["stop"], prefill["top_p"]) == (
        1,
        IDS,
        ["xyz"],
        0.5,
    )
    assert decode["kv_transfer_params"] == {TAG: handoff}
    assert decode["prompt"] == [*IDS, 77]
    assert (decode["max_tokens"], decode["min_tokens"], decode["stop"], decode["user"]) == (
        9,
        2,
        ["xyz"],
        "u",
    )
    assert decode["cache_salt"] not in {None, "mine", handoff}
    assert "n" not in decode
    await rig.settled()
    assert rig.metric("dpd_router_handoff_hits_total", result="full") == 1


@pytest.mark.parametrize("strategy", Strategy)
async def test_answers_that_the_router_reads_are_asked_for_as_they_are(
    start: Start, strategy: Strategy
) -> None:
    workers, rig = await start("--strategy", strategy)
    workers.script = [GOOD_STREAM] if strategy is Strategy.CONTINUE else [LANDED, GOOD_STREAM]
    body = {"model": "m", "prompt": IDS, "max_tokens": 10, "stream": True, "temperature": 0}
    async with rig.session.post(
        rig.base + "/v1/completions", json=body, headers={"Accept-Encoding": "gzip"}
    ) as answer:
        assert answer.headers["X-DPD-Decision"] == "disaggregated"
        assert (await answer.read()).endswith(b"data: [DONE]\n\n")
    await rig.settled()
    assert set(workers.accepted) == {None, "identity"}


async def test_immediate_end_of_sequence_is_the_whole_answer_and_is_drained(start: Start) -> None:
    workers, rig = await start()
    workers.first = {**text("", "stop"), "kv_transfer_params": {"first_tok": 2}}
    answer = await send(rig, stream=True, stream_options={"include_usage": True})
    assert (answer.text, answer.finish) == ("", ("stop", None))
    assert answer.usage == {"prompt_tokens": 1000, "completion_tokens": 1, "total_tokens": 1001}
    await rig.settled()
    (drain,) = workers.drains
    assert (drain["max_tokens"], drain["prompt"][-1], drain["stream"]) == (1, 2, False)
    assert rig.metric("dpd_router_handoffs_total", state=State.DRAINED) == 1


@pytest.mark.parametrize(
    "first",
    [
        {**text("one", "length"), "kv_transfer_params": None},
        {**text("one", "length"), "kv_transfer_params": {}},
        {"choices": [], "kv_transfer_params": {"first_tok": 1}},
        {**text("one", "abort"), "kv_transfer_params": {"first_tok": 1}},
        {**text("", "length"), "kv_transfer_params": {"first_tok": 1}},
    ],
)
async def test_unusable_prefill_answer_falls_back_and_is_drained(start: Start, first: dict[str, Any]) -> None:
    workers, rig = await start()
    workers.first = first
    assert (await send(rig, stream=False)).text == "direct"
    await rig.settled()
    assert rig.metric("dpd_router_decisions_total", decision="fallback") == 1
    assert rig.metric("dpd_router_handoffs_total", state=State.DRAINED) == 1


async def test_malformed_prefill_answer_falls_back(start: Start) -> None:
    workers, rig = await start("--drain-grace-seconds", "0.01")
    workers.prefill_answer = whole("no json")
    assert (await send(rig)).text == "direct"
    assert rig.decisions("fallback", Reason.PREFILL_MALFORMED) == 1
    await rig.settled()


BROKEN_STREAMS = [
    whole("overloaded", 503),
    whole("bad", 400),
    events(done=True),
    events("no json"),
    events(done=False),
    events({"error": {"message": "x"}}),
    cut,
]


@pytest.mark.parametrize("broken", BROKEN_STREAMS)
async def test_unusable_decoder_falls_back_before_the_first_byte(start: Start, broken: Answer) -> None:
    workers, rig = await start()
    workers.script = [broken, DIRECT]
    assert (await send(rig)).text == "direct"
    await rig.settled()
    assert rig.decisions("fallback", Reason.DECODE_FAILED) == 1


@pytest.mark.parametrize("broken", BROKEN_STREAMS)
async def test_unusable_decoder_is_resumed_after_the_first_token(start: Start, broken: Answer) -> None:
    workers, rig = await start()
    workers.script = [broken, GOOD_STREAM]
    answer = await send(rig, stream=True)
    assert answer.text == "one two three"
    await rig.settled()
    resumed = workers.decodes[1]
    assert resumed["prompt"] == [*IDS, 77]
    assert "kv_transfer_params" not in resumed
    assert rig.decisions("fallback", Reason.DECODE_FAILED) == 1


async def test_answer_that_cannot_be_resumed_ends_with_an_error_event(start: Start) -> None:
    workers, rig = await start()
    workers.script = [whole("x", 503), whole("x", 400)]
    answer = await send(rig, stream=True)
    first, last = answer.events
    assert (first["choices"][0]["text"], last["error"]["code"]) == ("one", "no_decoder")
    await rig.settled()


async def test_stream_that_breaks_after_its_end_was_shown_is_complete(start: Start) -> None:
    workers, rig = await start()
    workers.script = [events(text(" two", "stop"), done=False)]
    answer = await send(rig)
    assert (answer.text, answer.finish) == ("one two", ("stop", None))
    await rig.settled()
    assert rig.metric("dpd_router_handoff_hits_total", result="unchecked") == 1


async def test_worker_that_reports_no_cached_tokens_is_counted_as_unreported(start: Start) -> None:
    workers, rig = await start()
    usage = {"prompt_tokens": 1001, "completion_tokens": 1}
    workers.script = [events(text(" two", "length"), {"choices": [], "usage": usage})]
    assert (await send(rig)).status == 200
    assert rig.metric("dpd_router_handoff_hits_total", result="unreported") == 1
    await rig.settled()


async def test_partial_hit_is_a_failure_and_suspects_the_rest(start: Start) -> None:
    workers, rig = await start()
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 512}}
    workers.script = [events(text(" two", "length"), {"choices": [], "usage": usage})]
    assert (await send(rig)).status == 200
    await rig.settled()
    (decoder,) = rig.decoders
    assert rig.router.books.capacity(decoder.key) == 8 - 2
    assert rig.metric("dpd_router_handoff_failures_total", reason="cache_partial") == 1


async def test_stop_string_over_the_joint_ends_the_decoder_s_stream(start: Start) -> None:
    workers, rig = await start()
    workers.script = [
        events(text(" t"), text("wo and"), text(" more", "length"), {"choices": [], "usage": USAGE})
    ]
    answer = await send(rig, stop=["e two"], stream=True)
    assert (answer.text, answer.finish) == ("on", ("stop", "e two"))
    assert "stop" not in workers.decodes[0]
    await rig.settled()
    # the decoder would soon have ended by itself: its report is waited for
    assert rig.metric("dpd_router_handoff_hits_total", result="full") == 1


@pytest.mark.parametrize(
    ("rest", "max_tokens"),
    [
        pytest.param([], 1000, id="far from its end"),
        pytest.param(["no json"], 10, id="garbage"),
        pytest.param([{"error": {"message": "x"}}], 10, id="error event"),
    ],
)
async def test_answer_that_a_stop_string_ends_without_a_report_is_counted_as_unchecked(
    start: Start, rest: list[Any], max_tokens: int
) -> None:
    workers, rig = await start()
    workers.script = [events(text(" t"), text("wo and"), *rest, {"choices": [], "usage": USAGE})]
    answer = await rig.complete(IDS, max_tokens=max_tokens, stop=["e two"])
    assert (answer.text, answer.finish) == ("on", ("stop", "e two"))
    await rig.settled()
    assert rig.metric("dpd_router_handoff_hits_total", result="unchecked") == 1
    assert rig.metric("dpd_router_handoff_hits_total") == 1


async def test_missing_notification_is_drained_after_the_grace(start: Start) -> None:
    workers, rig = await start("--notification-timeout-seconds", "0.01", "--drain-grace-seconds", "0.01")
    workers.notifies = False
    empty = whole({**text("x"), "usage": {**USAGE, "prompt_tokens_details": {"cached_tokens": 0}}})
    workers.drain_script = [empty]
    assert (await send(rig)).text == "direct"
    await rig.settled()
    assert rig.metric("dpd_router_drains_total", result="empty") == 1
    assert rig.metric("dpd_router_handoffs_total", state=State.DRAINED) == 1


@pytest.mark.parametrize("broken", [whole("x", 500), whole("no json")])
async def test_drain_is_tried_again_and_written_off_in_the_end(
    start: Start, broken: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpd_router.custodian._FIRST_RETRY_SECONDS", 0.01)
    workers, rig = await start()
    workers.first = {**text("", "stop"), "kv_transfer_params": {"first_tok": 2}}
    workers.drain_script = [broken, LANDED, broken, broken]
    assert (await send(rig)).status == 200
    await rig.settled()
    assert rig.metric("dpd_router_handoffs_total", state=State.DRAINED) == 1
    assert (await send(rig)).status == 200
    await rig.settled()
    assert rig.metric("dpd_router_drains_total", result="failed") == 1
    assert rig.metric("dpd_router_handoffs_total", state=State.LOST) == 1
    (decoder,) = rig.decoders
    assert rig.router.books.capacity(decoder.key) == 4


async def test_drain_that_misses_what_landed_is_lost(start: Start) -> None:
    workers, rig = await start()
    workers.first = {**text("", "stop"), "kv_transfer_params": {"first_tok": 2}}
    workers.drain_script = [
        whole({**text("x"), "usage": {**USAGE, "prompt_tokens_details": {"cached_tokens": 256}}})
    ]
    await send(rig)
    await rig.settled()
    (decoder,) = rig.decoders
    assert rig.metric("dpd_router_handoffs_total", state=State.LOST) == 1
    assert rig.router.books.capacity(decoder.key) == 8 - 3


async def test_decoder_that_goes_while_its_notification_is_awaited(start: Start) -> None:
    workers, rig = await start("--health-interval-seconds", str(NEVER_SECONDS))
    workers.notifies = False
    client = asyncio.create_task(send(rig, stream=True))
    await until(lambda: [handoff.first_token for handoff in rig.router.custodian.handoffs] == [77])
    rig.router.pool.refused(rig.decoders[0])
    answer = await client
    assert answer.events[-1]["error"]["code"] == "no_decoder"
    assert rig.decisions("fallback", Reason.DECODER_GONE) == 1
    await rig.settled()
    assert rig.metric("dpd_router_handoffs_total", state=State.LOST) == 1


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_request_without_a_model_stays_without_one(start: Start, strategy: Strategy) -> None:
    workers, rig = await start("--strategy", strategy)
    workers.script = [GOOD_STREAM] if strategy is Strategy.CONTINUE else [LANDED, DIRECT]
    answer = await rig.post("/v1/completions", prompt=IDS, temperature=0, max_tokens=10)
    assert (answer.status, answer.body["model"]) == (200, "m")
    assert not any("model" in body for body in (*workers.prefills, *workers.decodes))
    await rig.settled()


# land


async def test_landing_sends_the_request_unchanged_but_for_the_salt(start: Start) -> None:
    workers, rig = await start("--strategy", Strategy.LAND)
    workers.script = [LANDED, whole({**text("all"), "usage": USAGE})]
    answer = await send(rig, logprobs=2, seed=3)
    assert answer.text == "all"
    land, served = workers.decodes
    assert (land["max_tokens"], land["prompt"]) == (1, [*IDS, 77])
    assert served["cache_salt"] == land["cache_salt"]
    assert (served["prompt"], served["logprobs"], served["seed"]) == (IDS, 2, 3)
    assert "kv_transfer_params" not in served
    await rig.settled()


@pytest.mark.parametrize("wanted", [True, False])
async def test_landed_stream_hides_the_usage_that_was_not_asked_for(start: Start, wanted: bool) -> None:
    workers, rig = await start("--strategy", Strategy.LAND)
    workers.script = [LANDED, events(text("a"), text("usage", "stop"), {"choices": [], "usage": USAGE})]
    fields = {"stream_options": {"include_usage": True}} if wanted else {}
    answer = await send(rig, stream=True, **fields)
    assert answer.text == "ausage"
    assert (answer.events[-1].get("usage") is not None) == wanted
    assert workers.decodes[1]["stream_options"] == {"include_usage": True}
    await rig.settled()


@pytest.mark.parametrize("broken", [whole("x", 503), whole("no json"), whole("x", 400)])
async def test_landing_that_fails_falls_back_and_is_drained(start: Start, broken: Answer) -> None:
    workers, rig = await start("--strategy", Strategy.LAND)
    workers.script = [broken, DIRECT]
    assert (await send(rig)).text == "direct"
    await rig.settled()
    assert rig.decisions("fallback", Reason.LANDING_FAILED) == 1
    assert rig.metric("dpd_router_handoffs_total", state=State.DRAINED) == 1


async def test_landing_that_misses_falls_back(start: Start) -> None:
    workers, rig = await start("--strategy", Strategy.LAND)
    miss = {**USAGE, "prompt_tokens_details": {"cached_tokens": 0}}
    workers.script = [whole({**text("x"), "usage": miss}), DIRECT]
    assert (await send(rig)).text == "direct"
    await rig.settled()
    assert rig.decisions("fallback", Reason.LANDING_FAILED) == 1
    assert rig.metric("dpd_router_handoffs_total", state=State.CONSUMED) == 1


@pytest.mark.parametrize(
    ("stream", "broken"),
    [(True, events(done=False)), (True, cut), (False, whole("x", 500)), (False, cut)],
)
async def test_landed_request_whose_decoder_fails_falls_back(
    start: Start, stream: bool, broken: Answer
) -> None:
    workers, rig = await start("--strategy", Strategy.LAND)
    workers.script = [LANDED, broken, GOOD_STREAM if stream else DIRECT]
    answer = await send(rig, stream=stream)
    assert answer.text == (" two three" if stream else "direct")
    assert rig.decisions("fallback", Reason.DECODE_FAILED) == 1
    await rig.settled()


async def test_a_decoder_that_never_begins_its_answer_is_not_waited_for_for_ever(start: Start) -> None:
    workers, rig = await start("--idle-timeout-seconds", str(PATIENT_SECONDS))
    workers.script = [silent, GOOD_STREAM]
    assert (await sent_past_silence(rig, workers)).text == "one two three"
    assert rig.decisions("fallback", Reason.DECODE_FAILED) == 1
    await rig.settled()
    assert len(workers.drains) == 1


async def test_a_landed_request_whose_answer_never_begins_falls_back(start: Start) -> None:
    workers, rig = await start("--strategy", Strategy.LAND, "--idle-timeout-seconds", str(PATIENT_SECONDS))
    workers.script = [LANDED, silent, GOOD_STREAM]
    assert (await sent_past_silence(rig, workers)).text == " two three"
    assert rig.decisions("fallback", Reason.DECODE_FAILED) == 1
    await rig.settled()


async def test_an_answer_that_busy_decoders_refuse_is_continued_at_another(start: Start) -> None:
    workers, rig = await start(decoders=3)
    busy = whole({"error": {"message": "busy"}}, 429)
    workers.script = [busy, busy, GOOD_STREAM]
    assert (await send(rig, stream=True)).text == "one two three"
    assert rig.metric("dpd_router_retries_total", role="decode") == 1
    await rig.settled()


async def test_landed_stream_that_breaks_ends_with_an_error_event(start: Start) -> None:
    workers, rig = await start("--strategy", Strategy.LAND)
    workers.script = [LANDED, events(text("a"), done=False)]
    answer = await send(rig, stream=True)
    assert (answer.events[0]["choices"][0]["text"], answer.events[1]["error"]["code"]) == (
        "a",
        "decoder_lost",
    )
    await rig.settled()


async def test_landed_request_that_the_engine_refuses_gets_its_refusal(start: Start) -> None:
    workers, rig = await start("--strategy", Strategy.LAND)
    workers.script = [LANDED, whole({"error": {"message": "no"}}, 400)]
    answer = await send(rig, stream=True)
    assert (answer.status, answer.body) == (400, {"error": {"message": "no"}})
    await rig.settled()


@pytest.mark.parametrize("stream", [True, False])
async def test_blocks_that_were_evicted_between_the_steps_are_counted(start: Start, stream: bool) -> None:
    workers, rig = await start("--strategy", Strategy.LAND)
    evicted = {**USAGE, "prompt_tokens_details": {"cached_tokens": 512}}
    answers = (
        events(text("a", "stop"), {"choices": [], "usage": evicted}),
        whole({**text("a"), "usage": evicted}),
    )
    workers.script = [LANDED, answers[0] if stream else answers[1]]
    assert (await send(rig, stream=stream)).text == "a"
    assert rig.metric("dpd_router_handoff_failures_total", reason="cache_evicted") == 1
    await rig.settled()


async def test_client_that_leaves_while_landing_lets_it_finish(start: Start) -> None:
    workers, rig = await start("--strategy", Strategy.LAND)
    reached, go = asyncio.Event(), asyncio.Event()

    async def held(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        reached.set()
        await go.wait()
        return await LANDED(request, body)

    workers.script = [held]
    client = asyncio.create_task(send(rig))
    await reached.wait()
    client.cancel()
    await asyncio.gather(client, return_exceptions=True)
    go.set()
    await rig.settled()
    assert rig.metric("dpd_router_handoffs_total", state=State.CONSUMED) == 1
    assert len(workers.decodes) == 1
