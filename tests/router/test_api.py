"""What clients can reach, what they are told, and what reaches the workers."""

import asyncio
import json
import logging
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest
from aiohttp import web

from dpd_router.config import load
from dpd_router.eligibility import Reason
from dpd_router.generation import INTERNAL_FIELDS
from dpd_router.router import Router
from dpd_simulator import SimulatedCluster
from tests.router.support import PATIENT_FLAGS, Rig, prompt, running, serving, until


class Recorder:
    """A decoder that writes down what it gets."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Mapping[str, str], bytes]] = []

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path == "/health":
            return web.Response()
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": "m", "max_model_len": 100}]})
        self.requests.append((request.path_qs, request.headers, await request.read()))
        return web.Response(body=b'{"x":1}', headers={"X-From": "worker", "Content-Type": "application/json"})


@pytest.fixture
async def recorded() -> Any:
    async with Recorder() as recorder, SimulatedCluster() as cluster:
        flags = (
            "--decoders",
            recorder.url,
            "--threshold",
            "never",
            "--host",
            cluster.router_host,
            "--port",
            "0",
            *PATIENT_FLAGS,
        )
        async with serving(Router(load(flags, {}), {}), cluster, workers=1) as rig:
            yield recorder, rig


@pytest.mark.parametrize(
    "path",
    [
        "/", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/sleep", "/wake_up", "/reset_prefix_cache", "/tokenize",
        "/start_profile", "/v1/completions/", "/v1/completions/render", "/v1/chat/completions/batch", "/v1//completions",
        "/v1/completions%2f..%2fmetrics", "/pause", "/collective_rpc", "/server_info", "/docs",
    ],
)  # fmt: skip
async def test_control_routes_of_workers_are_404(recorded: tuple[Recorder, Rig], path: str) -> None:
    recorder, rig = recorded
    for method in ("GET", "POST", "DELETE"):
        async with rig.session.request(method, rig.base + path, data=b"{}") as response:
            assert response.status == 404
            assert (await response.json())["error"]["code"] == "not_found"
    assert recorder.requests == []


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/completions"), ("POST", "/metrics"), ("PUT", "/v1/embeddings")]
)
async def test_other_methods_are_405(recorded: tuple[Recorder, Rig], method: str, path: str) -> None:
    _, rig = recorded
    async with rig.session.request(method, rig.base + path) as response:
        assert response.status == 405


@pytest.mark.parametrize(
    "path", ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/embeddings"]
)
async def test_request_and_answer_pass_unchanged(recorded: tuple[Recorder, Rig], path: str) -> None:
    recorder, rig = recorded
    raw = b'{ "model" : "m", "input": "\\u00e4",  "prompt": [1, 2] }'
    headers = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "a=b",
        "Authorization": "Bearer the worker's",
        "X-Custom": "c",
        "X-Request-Id": "mine-1",
        "X-Data-Parallel-Rank": "3",
        "Connection": "keep-alive, X-Hop",
        "X-Hop": "1",
        "Content-Type": "application/json",
    }
    async with rig.session.post(rig.base + path, data=raw, headers=headers) as response:
        assert (response.status, await response.read(), response.headers["X-From"]) == (
            200,
            b'{"x":1}',
            "worker",
        )
    ((seen_path, seen, body),) = recorder.requests
    assert (seen_path, body) == (path, raw)
    for name in ("traceparent", "tracestate", "Authorization", "X-Custom", "X-Request-Id"):
        assert seen[name] == headers[name]
    assert "X-Data-Parallel-Rank" not in seen
    assert "X-Hop" not in seen


async def test_request_id_that_is_no_plain_word_is_replaced(recorded: tuple[Recorder, Rig]) -> None:
    recorder, rig = recorded
    headers = {"X-Request-Id": "a b"}
    async with rig.session.post(rig.base + "/v1/completions", json={"prompt": "a"}, headers=headers):
        pass
    ((_, seen, _),) = recorder.requests
    assert seen["X-Request-Id"] != "a b"
    assert len(seen["X-Request-Id"]) == 32


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/responses"])
@pytest.mark.parametrize("field", sorted(INTERNAL_FIELDS))
async def test_internal_fields_never_reach_a_worker(
    recorded: tuple[Recorder, Rig], path: str, field: str
) -> None:
    recorder, rig = recorded
    answer = await rig.post(path, {"model": "m", "prompt": "a", field: {"lmcache.tag.dpd": "x"}})
    assert (answer.status, answer.body["error"]["param"]) == (400, field)
    assert recorder.requests == []


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b'{"prompt": NaN}', b"\x00", b"[" * 50_000])
async def test_malformed_json_is_a_400(recorded: tuple[Recorder, Rig], raw: bytes) -> None:
    recorder, rig = recorded
    answer = await rig.post("/v1/completions", raw)
    assert (answer.status, answer.body["error"]["code"]) == (400, "malformed_json")
    assert recorder.requests == []
    assert rig.metric("dpd_router_rejected_total", code="malformed_json") == 1


async def test_http_1_0_is_refused(recorded: tuple[Recorder, Rig]) -> None:
    _, rig = recorded
    reader, writer = await asyncio.open_connection(rig.cluster.router_host, rig.router.port)
    writer.write(b"GET /v1/models HTTP/1.0\r\n\r\n")
    assert b" 505 " in await reader.readline()
    writer.close()


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
@pytest.mark.parametrize("request_line", ["GET {} HTTP/1.0", "HEAD {} HTTP/1.0", "HEAD {} HTTP/1.1"])
async def test_monitors_may_be_old_or_ask_for_the_head_alone(
    recorded: tuple[Recorder, Rig], path: str, request_line: str
) -> None:
    _, rig = recorded
    reader, writer = await asyncio.open_connection(rig.cluster.router_host, rig.router.port)
    writer.write(f"{request_line.format(path)}\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert b" 200 OK" in head.partition(b"\r\n")[0]
    assert bool(body) == request_line.startswith("GET")
    writer.close()


async def test_models_of_a_worker_without_any_decoder_is_503() -> None:
    async with running() as rig:
        await rig.cluster.decoders[0].stop()
        await until(lambda: not rig.decoders[0].up)
        answer = await rig.get("/v1/models")
        assert (answer.status, answer.body["error"]["code"]) == (503, "no_decoder")


# admission


async def test_huge_body_is_a_413_and_costs_nothing() -> None:
    async with running("--max-body-bytes", "1000") as rig:
        assert (await rig.post("/v1/completions", b"x" * 1001)).status == 413

        async def pieces() -> Any:
            for _ in range(20):
                yield b"x" * 100

        async with rig.session.post(rig.base + "/v1/completions", data=pieces()) as response:
            assert response.status == 413
        await until(lambda: rig.metric("dpd_router_queued_bytes") == 0)


async def test_too_many_requests_are_429_with_retry_after() -> None:
    async with running("--max-requests", "1", "--retry-after-seconds", "4") as rig:
        body = {"model": "m", "prompt": prompt(20), "max_tokens": 15_000, "stream": True, "ignore_eos": True}
        async with rig.session.post(rig.base + "/v1/completions", json=body) as response:
            await response.content.readany()
            answer = await rig.complete(prompt(10))
            assert (answer.status, answer.headers["Retry-After"]) == (429, "4")
            assert (await rig.get("/health")).status == 200
            assert (await rig.get("/v1/models")).status == 200


async def test_bearer_keys_guard_the_api_and_do_not_reach_workers(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    async with Recorder() as recorder, SimulatedCluster() as cluster:
        flags = (
            "--decoders",
            recorder.url,
            "--threshold",
            "never",
            "--host",
            cluster.router_host,
            "--port",
            "0",
        )
        router = Router(load((*flags, *PATIENT_FLAGS, "--api-keys-file", str(keys)), {}), {})
        async with serving(router, cluster, workers=1) as rig:
            answer = await rig.post("/v1/completions", {"prompt": "a"})
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert (await rig.get("/v1/models")).status == 401
            for path in ("/health", "/ready", "/metrics"):
                assert (await rig.get(path)).status == 200
            headers = {"Authorization": "Bearer secret"}
            async with rig.session.post(
                rig.base + "/v1/completions", json={"prompt": "a"}, headers=headers
            ) as response:
                assert response.status == 200
            ((_, seen, _),) = recorder.requests
            assert "Authorization" not in seen


# decision


@pytest.mark.parametrize(
    ("flags", "tokens", "decision", "reason"),
    [
        (("--threshold", "1000"), 1000, "disaggregated", Reason.THRESHOLD),
        (("--threshold", "1000"), 999, "direct", Reason.BELOW_THRESHOLD),
        (("--threshold", "0"), 256, "disaggregated", Reason.THRESHOLD),
        (("--threshold", "0"), 255, "direct", Reason.SHORTER_THAN_CHUNK),
        (("--threshold", "never"), 1000, "direct", Reason.THRESHOLD_NEVER),
    ],
)
async def test_threshold_counts_ids(
    flags: tuple[str, ...], tokens: int, decision: str, reason: Reason
) -> None:
    async with running(*flags) as rig:
        assert (await rig.complete(prompt(tokens), max_tokens=3)).status == 200
        assert rig.decisions(decision, reason) == 1


async def test_text_far_below_is_not_tokenized_and_text_near_the_threshold_is() -> None:
    async with running("--threshold", "400", "--estimator-band", "2") as rig:
        await rig.post("/v1/completions", model="m", prompt="ba " * 10, max_tokens=3)
        assert rig.metric("dpd_router_tokenize_seconds_count") == 0
        # 900 bytes: estimated as 225 tokens, within the band; they are 600
        await rig.post("/v1/completions", model="m", prompt="z1 " * 300, max_tokens=3)
        assert rig.metric("dpd_router_tokenize_seconds_count", where="worker") == 1
        assert rig.decisions("disaggregated", Reason.THRESHOLD) == 1
        # 1,000 bytes: 250 estimated; they are 251
        await rig.post("/v1/completions", model="m", prompt="baba" * 250, max_tokens=3)
        assert rig.decisions("direct", Reason.BELOW_THRESHOLD) == 2


async def test_characters_alone_decide_as_in_hyperpod_s_router() -> None:
    async with running("--threshold", "400", "--estimator", "characters") as rig:
        await rig.post("/v1/completions", model="m", prompt="z1 " * 500, max_tokens=3)
        assert rig.decisions("direct", Reason.BELOW_THRESHOLD) == 1
        assert rig.metric("dpd_router_tokenize_seconds_count") == 0
        await rig.post("/v1/completions", model="m", prompt="baba" * 400, max_tokens=3)
        assert rig.decisions("disaggregated", Reason.THRESHOLD) == 1


@pytest.mark.parametrize("fields", [{"max_tokens": 10**30}, {"max_tokens": 16_000}])
async def test_absurd_numbers_get_the_engine_s_own_answer(fields: dict[str, Any]) -> None:
    async with running() as rig:
        body = {"model": "m", "prompt": prompt(1000), **fields}
        routed = await rig.post("/v1/completions", body)
        direct = await rig.post("/v1/completions", body, base=rig.cluster.decoders[0].url)
        assert (routed.status, routed.body.get("error")) == (direct.status, direct.body.get("error"))
        assert rig.decisions("direct", Reason.EXCEEDS_CONTEXT) == 1


async def test_unknown_model_gets_the_engine_s_own_answer() -> None:
    async with running() as rig:
        answer = await rig.post("/v1/completions", model="other", prompt=prompt(1000))
        assert answer.status == 404
        assert rig.decisions("direct", Reason.MODEL_NOT_ON_BOTH_ROLES) == 1


async def test_chat_that_asks_for_two_endings_gets_the_engine_s_own_answer() -> None:
    async with running() as rig:
        messages = [{"role": "user", "content": "ba be " * 500}]
        fields = {
            "model": "m",
            "messages": messages,
            "add_generation_prompt": True,
            "continue_final_message": True,
        }
        routed = await rig.post("/v1/chat/completions", fields)
        direct = await rig.post("/v1/chat/completions", fields, base=rig.cluster.decoders[0].url)
        assert (routed.status, routed.raw) == (direct.status, direct.raw)
        assert routed.status == 400
        assert rig.decisions("direct", Reason.INVALID_FIELD) == 1


async def test_affinity_by_session_and_by_prefix() -> None:
    for affinity in ("session", "prefix"):
        async with running("--affinity", affinity, "--threshold", "never", decode=4) as rig:
            generator = random.Random(1)
            for session in range(6):
                start = prompt(600, session)
                before = [engine.requests.get("/v1/completions", 0) for engine in rig.cluster.decoders]
                for _ in range(5):
                    body = {"model": "m", "prompt": [*start, generator.randint(400, 9000)], "max_tokens": 2}
                    headers = {"X-Session-Id": str(session)}
                    async with rig.session.post(
                        rig.base + "/v1/completions", json=body, headers=headers
                    ) as response:
                        assert response.status == 200
                after = [engine.requests.get("/v1/completions", 0) for engine in rig.cluster.decoders]
                assert sorted(b - a for a, b in zip(before, after, strict=True)) == [0, 0, 0, 5]


# privacy


async def test_prompts_are_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "zuzu" * 40
    async with running("--drain-grace-seconds", "0.1") as rig:
        for path, body in (
            ("/v1/completions", {"model": "m", "prompt": secret * 30, "max_tokens": 3}),
            ("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": secret * 30}]}),
        ):
            assert (await rig.post(path, body)).status == 200
            await rig.post(path, json.dumps(body).encode()[:-1])
            await rig.post(path, {**body, "kv_transfer_params": {}})
        await rig.cluster.prefillers[0].stop()
        await rig.post("/v1/completions", model="m", prompt=secret * 30, max_tokens=3)
        await rig.settled()
    mine = [record for record in caplog.records if record.name.startswith("dpd_router")]
    assert mine
    assert not any("zuzu" in str(vars(record)) for record in mine)


async def test_client_that_sends_half_a_body_is_dropped(recorded: tuple[Recorder, Rig]) -> None:
    _, rig = recorded
    _, writer = await asyncio.open_connection(rig.cluster.router_host, rig.router.port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    await until(lambda: rig.metric("dpd_router_queued_bytes") == 1)
    writer.close()
    await until(lambda: rig.router.admission.arrived == 0)
    assert rig.metric("dpd_router_queued_bytes") == 0


async def test_metrics_have_the_promised_names() -> None:
    async with running() as rig:
        await rig.complete(prompt(1000), max_tokens=3)
        text = (await rig.get("/metrics")).raw.decode()
        for name in (
            'dpd_router_decisions_total{decision="disaggregated",reason="threshold"} 1.0', "dpd_router_prompt_tokens_bucket",
            "dpd_router_kv_wait_seconds_count 1.0", "dpd_router_prefill_seconds_count 1.0", "dpd_router_ttft_seconds_count",
            "dpd_router_inflight_chunks{", "dpd_router_notif_timeouts_total 0.0", "dpd_router_build_info{",
            "dpd_router_pairs_broken 0.0", "dpd_router_handoffs_open 0.0",
        ):  # fmt: skip
            assert name in text
        assert rig.metric("dpd_router_ttft_seconds_count", decision="disaggregated") == 1


async def test_connection_that_is_cut_within_an_answer_counts_as_a_disconnect() -> None:
    async with running() as rig:
        body = {"model": "m", "prompt": prompt(20), "max_tokens": 15_000, "stream": True, "ignore_eos": True}
        response = await rig.session.post(rig.base + "/v1/completions", json=body)
        await response.content.readany()
        response.close()
        await until(lambda: rig.metric("dpd_router_client_disconnects_total") == 1)
        await until(lambda: rig.metric("dpd_router_worker_requests") == 0)
