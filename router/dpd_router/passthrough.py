"""The direct path: a request goes to a decoder and its answer comes back, byte for byte."""

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping
from typing import Final, cast

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict

from dpd_router import sse
from dpd_router.config import Settings
from dpd_router.errors import DECODER_LOST, ClientError
from dpd_router.generation import DECISION_HEADER
from dpd_router.http1 import HOP_BY_HOP, Head
from dpd_router.metrics import Metrics
from dpd_router.pool import Pool, Worker
from dpd_router.relay import Exchange, RelayPool
from dpd_router.trouble import Trouble
from dpd_router.upstream import UpstreamError

log = logging.getLogger(__name__)

# the first would choose a rank inside of a worker past the router's own choice
_NOT_FORWARDED: Final = HOP_BY_HOP | {
    "x-data-parallel-rank",
    "host",
    "content-length",
    "expect",
    "content-encoding",  # the body is read uncompressed
}
# statuses of a worker that is going or overloaded; another one may do better
_RETRIED_STATUSES: Final = frozenset({500, 502, 503})
# a request that brings down its worker must not bring down all of them
_ATTEMPTS_AFTER_SENDING: Final = 2
_ERROR_EVENT: Final = b'data: {"error"'


def forwarded_headers(headers: Mapping[str, str], *, keep_authorization: bool) -> CIMultiDict[str]:
    """Return a client's headers as they go on to a worker, trace context included."""
    dropped = _NOT_FORWARDED if keep_authorization else _NOT_FORWARDED | {"authorization"}
    named = {option.strip().lower() for option in headers.get("Connection", "").split(",")}
    return CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in dropped and name.lower() not in named
    )


class Passthrough:
    """Sends requests to decoders, to another one where nothing was answered yet."""

    def __init__(
        self, *, settings: Settings, pool: Pool, relays: RelayPool, trouble: Trouble, metrics: Metrics
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._relays = relays
        self._trouble = trouble
        self._metrics = metrics

    async def serve(
        self,
        request: web.BaseRequest,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        affinity_key: bytes | None = None,
        decision: str = "",
        on_first_byte: Callable[[], None] = lambda: None,
    ) -> web.StreamResponse:
        """Answer a request from some decoder; a `decision` is told to the client.

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
                    decision=decision,
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
        request: web.BaseRequest,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        retry_statuses: bool = False,
        decision: str = "",
        on_first_byte: Callable[[], None] = lambda: None,
    ) -> web.StreamResponse:
        """Answer a request from this decoder.

        Raises:
            UpstreamError: it failed and the client has seen nothing.
        """
        if not decoder.up:
            self._metrics.last_resort.inc()
        with self._pool.busy(decoder):
            try:
                # the head alone promises nothing: vLLM sends it before it schedules a stream
                exchange = await self._relays.send(
                    decoder,
                    path,
                    headers,
                    body,
                    on_data=functools.partial(self._count_error_event, decoder),
                    idle_timeout_seconds=self._settings.timeouts.idle_timeout_seconds,
                )
            except UpstreamError as error:
                self._trouble.report(decoder, error)
                raise
            try:
                assert exchange.head is not None
                if retry_statuses and exchange.head.status in _RETRIED_STATUSES:
                    overloaded = UpstreamError("status", exchange.head.status)
                    self._trouble.report(decoder, overloaded)
                    raise overloaded
                on_first_byte()
                more = _told(exchange.head, headers["X-Request-Id"], decision)
                return await self._relay(decoder, exchange, exchange.head, request, more)
            finally:
                exchange.leave()

    async def _relay(
        self,
        decoder: Worker,
        exchange: Exchange,
        head: Head,
        request: web.BaseRequest,
        more: tuple[bytes, ...],
    ) -> web.StreamResponse:
        if request.transport is None:
            raise ConnectionResetError
        # uvloop's transports have the interface and not the class
        transport = cast("asyncio.WriteTransport", request.transport)
        keep_alive = request.keep_alive
        exchange.relay_to(transport, request.writer, head.for_client(close=not keep_alive, more=more))
        try:
            await exchange.done
        except UpstreamError as error:
            self._trouble.report(decoder, error)
            self._abort(transport, head, between_chunks=exchange.between_chunks)
            keep_alive = False
        return RelayedResponse(status=head.status, keep_alive=keep_alive)

    def _count_error_event(self, decoder: Worker, data: bytes) -> None:
        # text in an event has its quotes escaped, so that this cannot be found in an answer's text
        if _ERROR_EVENT in data:
            self._metrics.upstream_errors.labels(decoder.role, "error_event").inc()

    def _abort(self, transport: asyncio.WriteTransport, head: Head, *, between_chunks: bool) -> None:
        """End an answer whose decoder is lost so that the client cannot take it for complete."""
        if transport.is_closing():
            return
        if head.content_type == sse.CONTENT_TYPE.encode() and between_chunks:
            event = b"data: " + DECODER_LOST + b"\n\n" + sse.DONE_EVENT
            transport.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(event), event))
        else:
            transport.abort()


def _told(head: Head, request_id: str, decision: str) -> tuple[bytes, ...]:
    """Return the router's own lines of a head."""
    told = (f"{DECISION_HEADER}: {decision}".encode(),) if decision else ()
    return told if head.names_request else (*told, f"X-Request-Id: {request_id}".encode())


class RelayedResponse(web.StreamResponse):
    """Stands for an answer that is on the client's connection already."""

    def __init__(self, *, status: int, keep_alive: bool) -> None:
        super().__init__(status=status)
        self._relayed_keep_alive = keep_alive

    @property
    def keep_alive(self) -> bool:
        """Whether the client's connection may carry another request."""
        return self._relayed_keep_alive

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send nothing: the head is sent."""
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Send nothing: the end is sent."""
