"""As much of an API server as discovery needs: EndpointSlices, to list and to watch."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

_FIRST_VERSION = 7


def a_slice(
    name: str, *endpoints: tuple[str, bool], port: int = 8000, port_name: str = "http"
) -> dict[str, Any]:
    """Return a slice of (address, whether it is terminating)."""
    return {
        "metadata": {"name": name, "resourceVersion": "1"},
        "ports": [{"name": "metrics", "port": 9}, {"name": port_name, "port": port}],
        "endpoints": [
            {"addresses": [address], "conditions": {"ready": not terminating, "terminating": terminating}}
            for address, terminating in endpoints
        ],
    }


class ApiServer:
    """Services `prefill`, `decode` and `router` of namespace `ns`.

    Attributes:
        slices: what a list answers.
        fail: lists and watches that are answered with 500.
        expired_watches: watches that are answered with 410.
    """

    def __init__(self) -> None:
        self.slices: dict[str, list[dict[str, Any]]] = {"prefill": [], "decode": [], "router": []}
        self.queries: list[dict[str, str]] = []
        self.tokens: list[str | None] = []
        self.fail = 0
        self.accepted_token: str | None = None
        self.expired_watches = 0
        self._events: dict[str, list[bytes | None]] = {name: [] for name in self.slices}
        self._news = asyncio.Condition()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert request.path == "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices"
        self.queries.append(dict(request.query))
        self.tokens.append(request.headers.get("Authorization"))
        label, _, service = request.query["labelSelector"].partition("=")
        assert label == "kubernetes.io/service-name"
        if self.fail:
            self.fail -= 1
            raise web.HTTPInternalServerError
        if self.accepted_token is not None and self.tokens[-1] != f"Bearer {self.accepted_token}":
            raise web.HTTPUnauthorized
        if "watch" not in request.query:
            version = str(_FIRST_VERSION + len(self._events[service]))
            return web.json_response(
                {"metadata": {"resourceVersion": version}, "items": self.slices[service]}
            )
        if self.expired_watches:
            self.expired_watches -= 1
            raise web.HTTPGone
        response = web.StreamResponse()
        await response.prepare(request)
        async for event in self._since(service, int(request.query["resourceVersion"])):
            await response.write(event)
        return response

    async def _since(self, service: str, version: int) -> AsyncIterator[bytes]:
        """Yield the events after a list, those that come included, until one ends the watches."""
        while (event := await self._event(service, version - _FIRST_VERSION)) is not None:
            version += 1
            # cut, as the network may
            yield event[:9]
            yield event[9:]

    async def _event(self, service: str, index: int) -> bytes | None:
        events = self._events[service]
        async with self._news:
            await self._news.wait_for(lambda: len(events) > index)
        return events[index]

    async def event(self, service: str, kind: str, thing: dict[str, Any]) -> None:
        """Tell every watch of a Service."""
        await self._append(service, json.dumps({"type": kind, "object": thing}).encode() + b"\n")

    async def change(self, service: str, changed: dict[str, Any]) -> None:
        """Set the only slice of a Service."""
        self.slices[service] = [changed]
        await self.event(service, "MODIFIED", changed)

    async def say(self, service: str, line: bytes) -> None:
        """Send a line that may be no event."""
        await self._append(service, line)

    async def end_watches(self, service: str) -> None:
        """End every watch of a Service."""
        await self._append(service, None)

    async def _append(self, service: str, event: bytes | None) -> None:
        async with self._news:
            self._events[service].append(event)
            self._news.notify_all()


@contextlib.asynccontextmanager
async def api_server() -> AsyncIterator[tuple[ApiServer, str]]:
    """Run an API server until the block ends; yield it and its URL."""
    server = ApiServer()
    application = web.Application()
    application.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield server, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
