import asyncio
import dataclasses
import gzip
import sys
from typing import Any, Self

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from dpd_router.config import ConfigError, load
from dpd_router.generation import DECISION_HEADER
from dpd_router.router import Router
from dpd_router.tracing import Tracing, TracingError
from dpd_simulator import EngineConfig, NixlConfig
from dpd_simulator.server import Server
from tests.router.support import prompt, running

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_without_an_endpoint_nothing_happens() -> None:
    tracing = Tracing("")
    with tracing.request("/x", "r", {"traceparent": "t"}) as headers:
        tracing.annotate(decision="direct")
    assert headers == {}
    tracing.stop()


def test_missing_extra_is_an_error_with_a_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(TracingError, match=r"dpd-router\[otel\]"):
        Tracing("http://localhost:4318")


async def test_span_continues_the_client_s_trace_and_is_sent() -> None:
    received: list[bytes] = []

    async def collect(request: web.Request) -> web.Response:
        assert request.path == "/v1/traces"
        received.append(await request.read())
        return web.Response()

    application = web.Application()
    application.router.add_post("/{path:.*}", collect)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    tracing = Tracing(f"http://127.0.0.1:{runner.addresses[0][1]}/")
    parent = f"00-{TRACE}-b7ad6b7169203331-01"
    with tracing.request("/v1/completions", "r1", {"Traceparent": parent}) as headers:
        tracing.annotate(decision="disaggregated")
    assert headers["traceparent"].split("-")[1] == TRACE
    assert headers["traceparent"] != parent
    await asyncio.to_thread(tracing.stop)
    await runner.cleanup()
    (sent,) = received
    assert bytes.fromhex(TRACE) in sent
    assert b"disaggregated" in sent


# -- through a hand-off -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """A span as the collector got it."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, str]


class Collector:
    """Takes traces over OTLP/HTTP."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_post("/v1/traces", self._take)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        raw = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        sent = ExportTraceServiceRequest.FromString(raw)
        for resource in sent.resource_spans:
            for scope in resource.scope_spans:
                self.spans += [
                    Span(
                        name=span.name,
                        trace_id=span.trace_id.hex(),
                        span_id=span.span_id.hex(),
                        parent_id=span.parent_span_id.hex(),
                        attributes={each.key: each.value.string_value for each in span.attributes},
                    )
                    for span in scope.spans
                ]
        return web.Response()


CLIENT_SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{CLIENT_SPAN}-01"


@pytest.fixture
def traces_at_engines(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Role and `traceparent` of every generation request that has reached an engine."""
    seen: list[tuple[str, str]] = []
    original = Server._generate

    async def generate(server: Any, request: web.Request, *rest: Any) -> web.StreamResponse:
        seen.append((server._host.config.role.value, request.headers.get("traceparent", "")))
        return await original(server, request, *rest)

    monkeypatch.setattr(Server, "_generate", generate)
    return seen


@pytest.mark.parametrize(
    ("flags", "requests"),
    [
        (("--strategy", "continue"), ["prefill", "decode"]),
        (("--strategy", "land"), ["prefill", "decode", "decode"]),
        (("--transfer", "nixl"), ["prefill", "decode"]),
        (("--threshold", "never"), ["decode"]),
    ],
    ids=["continue", "land", "nixl", "direct"],
)
async def test_one_trace_holds_every_request_of_a_hand_off(
    flags: tuple[str, ...], requests: list[str], traces_at_engines: list[tuple[str, str]]
) -> None:
    engine = EngineConfig(nixl=NixlConfig()) if "nixl" in flags else None
    async with Collector() as collector:
        async with running("--otlp-endpoint", collector.url, *flags, engine=engine) as rig:
            body = {"model": "m", "prompt": prompt(1000), "max_tokens": 4, "temperature": 0}
            async with rig.session.post(
                f"{rig.base}/v1/completions", json=body, headers={"traceparent": PARENT}
            ) as answer:
                assert answer.status == 200
                decision = answer.headers[DECISION_HEADER]
            await rig.settled()
        # the router has stopped, and with it sent what was left
        (span,) = collector.spans
    assert (span.trace_id, span.parent_id) == (TRACE, CLIENT_SPAN)
    assert (
        span.attributes["dpd.decision"] == decision == ("direct" if len(requests) == 1 else "disaggregated")
    )
    # each worker's spans become children of the router's
    expected = [(role, f"00-{TRACE}-{span.span_id}-01") for role in requests]
    assert traces_at_engines == expected


async def test_clients_without_a_trace_get_one_of_their_own(
    traces_at_engines: list[tuple[str, str]],
) -> None:
    async with Collector() as collector:
        async with running("--otlp-endpoint", collector.url) as rig:
            for _ in range(2):
                assert (await rig.complete(prompt(1000), max_tokens=4)).status == 200
            await rig.settled()
        traces = [span.trace_id for span in collector.spans]
    assert len(set(traces)) == 2
    assert {header.split("-")[1] for _, header in traces_at_engines} == set(traces)


async def test_a_collector_that_is_away_costs_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    # how long the exporter tries again when the router ends
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1")
    async with running("--otlp-endpoint", "http://127.0.0.1:9") as rig:
        assert (await rig.complete(prompt(1000), max_tokens=4)).status == 200
        await rig.settled()


NEVER = ("--decoders", "http://127.0.0.1:1", "--threshold", "never")


def test_an_endpoint_without_the_extra_stops_the_router_at_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"dpd-router\[otel\]"):
        Router(load([*NEVER, "--otlp-endpoint", "http://127.0.0.1:9"], {}), {})
