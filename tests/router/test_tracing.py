import asyncio
import sys

import pytest
from aiohttp import web

from dpd_router.tracing import Tracing, TracingError

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
