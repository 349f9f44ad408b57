"""The direct path: a request goes to a decoder and its answer comes back, byte for byte."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp
from aiohttp import web

from dpd_router.config import Settings
from dpd_router.errors import ClientError
from dpd_router.health import HealthMonitor
from dpd_router.metrics import Metrics
from dpd_router.pool import Pool, Worker
from dpd_router.upstream import Upstream, UpstreamError, chunks

log = logging.getLogger(__name__)

# RFC 9110: they belong to one connection
HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# the first would choose a rank inside of a worker past the router's own choice
_NOT_FORWARDED: Final = HOP_BY_HOP | {"x-data-parallel-rank", "host", "content-length", "expect"}
_NOT_RETURNED: Final = HOP_BY_HOP | {"date", "server", "content-length"}
# statuses of a worker that is going or overloaded; another one may do better
_RETRIED_STATUSES: Final = frozenset({500, 502, 503})
# a request that brings down its worker must not bring down all of them
_ATTEMPTS_AFTER_SENDING: Final = 2
_ERROR_EVENT: Final = b'data: {"error"'


def forwarded_headers(headers: Mapping[str, str], *, keep_authorization: bool) -> dict[str, str]:
    """Return a client's headers as they go on to a worker, trace context included."""
    dropped = _NOT_FORWARDED if keep_authorization else _NOT_FORWARDED | {"authorization"}
    named = {option.strip().lower() for option in headers.get("Connection", "").split(",")}
    return {
        name: value
        for name, value in headers.items()
        if name.lower() not in dropped and name.lower() not in named
    }


class Passthrough:
    """Sends requests to decoders, to another one where nothing was answered yet."""

    def __init__(
        self, *, settings: Settings, pool: Pool, upstream: Upstream, health: HealthMonitor, metrics: Metrics
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._upstream = upstream
        self._health = health
        self._metrics = metrics

    async def serve(
        self,
        request: web.Request,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        affinity_key: bytes | None = None,
        on_first_byte: Callable[[], None] = lambda: None,
    ) -> web.StreamResponse:
        """Answer a request from some decoder.

        Raises:
            ClientError: no decoder can answer.
        """
        tried: list[Worker] = []
        sent = 0
        while True:
            decoder = self._pool.decoder(affinity_key, exclude=tried)
            if decoder is None:
                raise self._no_decoder(tried)
            tried.append(decoder)
            last = sent + 1 >= _ATTEMPTS_AFTER_SENDING or self._pool.decoder(exclude=tried) is None
            try:
                response = await self.serve_from(
                    decoder,
                    request,
                    path,
                    body,
                    headers,
                    retry_statuses=not last,
                    on_first_byte=on_first_byte,
                )
            except UpstreamError as error:
                sent += not error.unsent
                if sent >= _ATTEMPTS_AFTER_SENDING:
                    raise self._no_decoder(tried) from error
                self._metrics.retries.labels(decoder.role).inc()
            else:
                return response

    def _no_decoder(self, tried: list[Worker]) -> ClientError:
        return ClientError(
            503,
            "no_decoder",
            "no decode worker answers" if tried else "no decode worker is up",
            retry_after_seconds=self._settings.admission.retry_after_seconds,
        )

    async def serve_from(
        self,
        decoder: Worker,
        request: web.Request,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        retry_statuses: bool = False,
        on_first_byte: Callable[[], None] = lambda: None,
    ) -> web.StreamResponse:
        """Answer a request from this decoder.

        Raises:
            UpstreamError: it failed and the client has seen nothing.
        """
        with self._pool.busy(decoder):
            try:
                upstream = await self._upstream.open(decoder, path, body, headers)
            except UpstreamError as error:
                self._failed(decoder, error)
                raise
            try:
                if retry_statuses and upstream.status in _RETRIED_STATUSES:
                    overloaded = UpstreamError("status", upstream.status)
                    self._failed(decoder, overloaded)
                    raise overloaded
                return await self._relay(decoder, upstream, request, on_first_byte)
            finally:
                # after an answer that was read to its end this gives the connection back
                upstream.release() if upstream.content.at_eof() else upstream.close()

    async def _relay(
        self,
        decoder: Worker,
        upstream: aiohttp.ClientResponse,
        request: web.Request,
        on_first_byte: Callable[[], None],
    ) -> web.StreamResponse:
        data = chunks(upstream, self._settings.timeouts.idle_timeout_seconds)
        try:
            # the head alone promises nothing: vLLM sends it before it schedules a stream
            first = await anext(data, b"")
        except UpstreamError as error:
            self._failed(decoder, error)
            raise
        self._count_error_event(decoder, first)
        on_first_byte()
        response = web.StreamResponse(
            status=upstream.status, reason=upstream.reason, headers=_returned(upstream)
        )
        if upstream.content_length is not None:
            response.content_length = upstream.content_length
        await response.prepare(request)
        await response.write(first)
        try:
            async for piece in data:
                self._count_error_event(decoder, piece)
                await response.write(piece)
        except UpstreamError as error:
            self._failed(decoder, error)
            await self._abort(response, request)
            return response
        await response.write_eof()
        return response

    def _count_error_event(self, decoder: Worker, piece: bytes) -> None:
        # text in an event has its quotes escaped, so that this cannot be found in an answer's text
        if _ERROR_EVENT in piece:
            self._metrics.upstream_errors.labels(decoder.role, "error_event").inc()

    async def _abort(self, response: web.StreamResponse, request: web.Request) -> None:
        """End an answer whose decoder is lost so that the client cannot take it for complete."""
        if response.content_type == "text/event-stream":
            event = (
                b'data: {"error":{"message":"the decoder ended before its answer did","type":"upstream_error"'
            )
            await response.write(event + b',"param":null,"code":"decoder_lost"}}\n\ndata: [DONE]\n\n')
            await response.write_eof()
        elif request.transport is not None:
            request.transport.abort()

    def _failed(self, decoder: Worker, error: UpstreamError) -> None:
        self._metrics.upstream_errors.labels(decoder.role, error.kind).inc()
        if error.kind == "refused":
            self._pool.refused(decoder)
        self._health.check_now(decoder)


def _returned(upstream: aiohttp.ClientResponse) -> list[tuple[str, str]]:
    return [(name, value) for name, value in upstream.headers.items() if name.lower() not in _NOT_RETURNED]
