"""Clients' connections: how many are kept, for how long, and what a client gets that does not speak HTTP."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from dpd_router.errors import ClientError
from dpd_router.metrics import Metrics
from dpd_router.sockets import end_when_silent

log = logging.getLogger(__name__)


class ClientConnection(RequestHandler):
    """One connection of a client."""

    def __init__(self, server: "ClientServer", metrics: Metrics, **options: Any) -> None:
        super().__init__(server, **options)
        self._metrics = metrics

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,  # noqa: ARG002 -- the library's signature
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """Answer what is no HTTP, or what the router failed at, without a word of what the client sent.

        The library writes a parser's complaint to the log and to the client, and that quotes the bytes: a key where a
        header is malformed, a prompt where a body is longer than its client announced.
        """
        if isinstance(exc, HttpProcessingError):
            error = ClientError(400, "malformed_http", "the request is not valid HTTP/1.1")
            fields = {"remote": request.remote, "error": type(exc).__name__}
            log.info("malformed request", extra={"fields": fields})
        else:
            error = ClientError(500, "internal_error", "the router failed")
            log.error("request failed", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("a part of another answer has been sent already")
        self._metrics.rejected.labels(error.code).inc()
        response = web.Response(status=error.status, body=error.body(), content_type="application/json")
        response.force_close()
        return response

    def log_exception(self, *arguments: Any, **options: Any) -> None:
        """Log an error of the library, unless it is a body that its client has framed or compressed wrongly."""
        if not isinstance(options.get("exc_info"), (HttpProcessingError, web.RequestPayloadError)):
            super().log_exception(*arguments, **options)


class ClientServer(web.Server):
    """Makes connections, and closes those that nobody misses.

    A client that is only slow is waited for, in the kernel's buffers and a few of the router's. One that takes nothing
    at all, or whose machine is gone without a word, would keep the place of a request for ever.
    """

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        metrics: Metrics,
        placed: Container[RequestHandler],
        max_connections: int,
        stall_seconds: float,
        keepalive_seconds: float,
    ) -> None:
        """Describe the server; `placed` has the connections on which a request is served."""
        super().__init__(handler, handler_cancellation=True)
        self._metrics = metrics
        self._placed = placed
        self._max_connections = max_connections
        self._stall_seconds = stall_seconds
        self._keepalive_seconds = keepalive_seconds
        self._kept: dict[RequestHandler, None] = {}  # the oldest first

    def __call__(self) -> RequestHandler:
        """Return the protocol of a new connection."""
        return ClientConnection(
            self,
            self._metrics,
            loop=asyncio.get_running_loop(),
            access_log=None,
            keepalive_timeout=self._keepalive_seconds,
        )

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Keep a connection, in place of another one where there are too many."""
        super().connection_made(handler, transport)
        self._kept[handler] = None
        end_when_silent(transport.get_extra_info("socket"), self._stall_seconds)
        if len(self._kept) > self._max_connections:
            self._evict()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        self._kept.pop(handler, None)
        super().connection_lost(handler, exc)

    def _evict(self) -> None:
        """Close the oldest connection whose request is not served: one that waits or trickles must keep nobody out."""
        oldest = next(connection for connection in self._kept if connection not in self._placed)
        del self._kept[oldest]
        self._metrics.evicted_connections.inc()
        oldest.force_close()
