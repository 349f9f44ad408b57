"""The HTTP side: paths, admission, decision, and the answer by a transfer or directly."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler
from multidict import CIMultiDict

from dpd_router.admission import Admission
from dpd_router.config import AdmissionPolicy, Affinity, Settings
from dpd_router.decision import Decider, Direct
from dpd_router.eligibility import Reason
from dpd_router.errors import ClientError
from dpd_router.generation import Generation, Json, Kind, parse_body
from dpd_router.logs import REQUEST_ID
from dpd_router.metrics import CONTENT_TYPE, Metrics
from dpd_router.passthrough import Passthrough, forwarded_headers
from dpd_router.pool import Pool
from dpd_router.tokens import affinity_prefix
from dpd_router.tracing import Tracing
from dpd_router.transfer.base import FallbackError, NotTakenError, Transfer

log = logging.getLogger(__name__)

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_KINDS: Final = {kind.value: kind for kind in Kind}
_CLIENT_CLOSED: Final = 499


class App:
    """Handles requests.

    Attributes:
        placed: clients' connections on which a request of the API is served.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        pool: Pool,
        decider: Decider,
        transfer: Transfer,
        passthrough: Passthrough,
        admission: Admission,
        metrics: Metrics,
        tracing: Tracing,
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._decider = decider
        self._transfer = transfer
        self._passthrough = passthrough
        self._admission = admission
        self._metrics = metrics
        self._tracing = tracing
        self._own: dict[str, Callable[[], web.Response]] = {
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": self._render_metrics,
        }
        posts = (*_KINDS, *settings.routing.passthrough_paths)
        self._methods = dict.fromkeys(posts, "POST") | dict.fromkeys((*self._own, "/v1/models"), "GET")
        self._busy: set[RequestHandler] = set()
        self.placed: set[RequestHandler] = set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer any request."""
        path = request.path
        method = self._methods.get(path)
        if method is None:
            # nothing else of a worker is reachable: adapters, profiling, sleep and the like are control routes
            return self._refuse(ClientError(404, "not_found", "this path is not served"), "")
        # who may get may ask for the head alone, as monitors do
        if request.method not in {method, "HEAD" if method == "GET" else method}:
            return self._refuse(ClientError(405, "method_not_allowed", f"use {method} here"), "")
        own = self._own.get(path)
        if own is not None:
            return own()
        if request.version < HttpVersion11:
            return self._refuse(ClientError(505, "http_version", "use HTTP/1.1"), "")
        return await self._counted(request, path)

    def _health(self) -> web.Response:
        return web.Response(text="ok")

    def _render_metrics(self) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    def _ready(self) -> web.Response:
        if self._admission.closing:
            return web.Response(status=503, text="shutting down")
        # a router that serves through late decoders must not be taken out of its Service for them
        if self._pool.decoder() is None:
            return web.Response(status=503, text="no decoder is up")
        return web.Response(text="ok")

    async def _counted(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Answer a request of the API and count how it ended."""
        request_id = _request_id(request)
        REQUEST_ID.set(request_id)
        start = time.perf_counter()
        status = 500
        self._busy.add(request.protocol)
        try:
            response = await self._admitted(request, path, request_id)
            status = response.status
        except ClientError as error:
            status = error.status
            response = self._refuse(error, request_id)
        except asyncio.CancelledError:
            status = _CLIENT_CLOSED
            self._metrics.client_disconnects.inc()
            raise
        except ConnectionError:
            # a write to a client that has left; the server finds its connection closed as well
            status = _CLIENT_CLOSED
            self._metrics.client_disconnects.inc()
            response = web.Response(status=status)
        finally:
            self._busy.discard(request.protocol)
            if self._admission.closing:
                request.protocol.close()
            self._metrics.requests.labels(path, str(status)).inc()
            if log.isEnabledFor(logging.INFO):
                fields = {"path": path, "status": status, "seconds": round(time.perf_counter() - start, 4)}
                log.info("request", extra={"fields": fields})
        return response

    def _refuse(self, error: ClientError, request_id: str) -> web.Response:
        self._metrics.rejected.labels(error.code).inc()
        headers = {"X-Request-Id": request_id} if request_id else {}
        if error.retry_after_seconds is not None:
            headers["Retry-After"] = str(error.retry_after_seconds)
        if error.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        response = web.Response(
            status=error.status, body=error.body(), content_type="application/json", headers=headers
        )
        if self._admission.closing:
            response.force_close()
        return response

    def close_idle(self, server: web.Server) -> None:
        """Close clients' connections without a request; the others are closed after the answer under way.

        A client that keeps its connection would meet this router's refusals as long as its last
        requests take, while another router serves behind the same address.
        """
        for connection in server.connections:
            if connection not in self._busy:
                connection.force_close()

    async def _admitted(self, request: web.BaseRequest, path: str, request_id: str) -> web.StreamResponse:
        self._admission.authenticate(request.headers.get("Authorization"))
        if path == "/v1/models":
            return self._models()
        body = _BodyReader(request, self._admission, self._settings.admission)
        try:
            with self._admission.arrival():
                raw = await body.read()
                with (
                    self._admission.place(),
                    self._tracing.request(path, request_id, request.headers) as trace,
                ):
                    self.placed.add(request.protocol)
                    headers = forwarded_headers(
                        request.headers, keep_authorization=self._admission.keeps_authorization
                    )
                    headers["X-Request-Id"] = request_id
                    headers.update(trace)
                    return await self._answer(request, path, request_id, raw, headers)
        finally:
            self.placed.discard(request.protocol)
            body.forget()

    async def _answer(
        self, request: web.BaseRequest, path: str, request_id: str, raw: bytes, headers: CIMultiDict[str]
    ) -> web.StreamResponse:
        start = time.perf_counter()
        parsed = parse_body(raw)
        kind = _KINDS.get(path)
        if kind is None:
            return await self._passthrough.serve(request, path, raw, headers)
        generation = Generation(
            kind=kind,
            request_id=request_id,
            body=parsed,
            raw=raw,
            headers=headers,
            arrived_at=start,
            affinity_key=self._affinity_key(kind, parsed, headers),
        )
        decision = await self._decider.decide(generation)
        if isinstance(decision, Direct):
            reason = decision.reason
            name = "direct"
        else:
            try:
                served = await self._transfer.serve(request, generation, decision)
            except NotTakenError as error:
                reason, name = error.reason, "direct"
            except FallbackError as error:
                reason, name = error.reason, "fallback"
            else:
                if served.fallback is None:
                    self._decided("disaggregated", Reason.THRESHOLD)
                else:
                    self._decided("fallback", served.fallback)
                return served.response
        self._decided(name, reason)
        return await self._passthrough.serve(
            request,
            path,
            raw,
            headers,
            affinity_key=generation.affinity_key,
            decision=name,
            on_first_byte=lambda: self._metrics.answered(name, start),
        )

    def _decided(self, decision: str, reason: Reason) -> None:
        self._metrics.decisions.labels(decision, reason).inc()
        self._tracing.annotate(decision=decision, reason=reason)

    def _affinity_key(self, kind: Kind, body: Json, headers: Mapping[str, str]) -> bytes | None:
        routing = self._settings.routing
        match routing.affinity:
            case Affinity.SESSION:
                session = headers.get(routing.session_header) or body.get("user")
                return (
                    session.encode("utf-8", "surrogatepass") if isinstance(session, str) and session else None
                )
            case Affinity.PREFIX:
                return affinity_prefix(kind, body, routing.affinity_prefix_bytes)
            case Affinity.NONE:
                return None

    def _models(self) -> web.StreamResponse:
        """Return the models of a decoder as its last good check found them: asked now, a saturated one answers late."""
        decoder = self._pool.decoder()
        if decoder is None:
            raise ClientError(
                503,
                "no_decoder",
                "no decode worker is up",
                retry_after_seconds=self._settings.admission.retry_after_seconds,
            )
        return web.Response(body=decoder.model_list, content_type="application/json")


class _BodyReader:
    """Reads a body within the limits and counts its bytes while the request is in flight."""

    def __init__(self, request: web.BaseRequest, admission: Admission, policy: AdmissionPolicy) -> None:
        self._request = request
        self._admission = admission
        self._limit_bytes = policy.max_body_bytes
        self._timeout_seconds = policy.body_timeout_seconds
        self._counted = 0

    async def read(self) -> bytes:
        """Return the body.

        Raises:
            ClientError: it is too large or too slow, or too much is in flight.
        """
        announced = self._request.content_length
        if announced is not None and announced > self._limit_bytes:
            raise self._too_large()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._invite()
                pieces = await self._pieces()
        except TimeoutError:
            # a client that sends a byte now and then must not keep a place
            raise ClientError(408, "body_timeout", "the body did not come in time") from None
        except (web.RequestPayloadError, HttpProcessingError):
            raise ClientError(400, "malformed_body", "the body is framed or compressed wrongly") from None
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _invite(self) -> None:
        """Tell a client to send its body that waits to be told."""
        if self._request.headers.get("Expect", "").lower() == "100-continue":
            writer = self._request.writer
            await writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            writer.output_size = 0  # nothing of the answer itself is sent

    async def _pieces(self) -> list[bytes]:
        pieces = []
        async for piece in self._request.content.iter_any():
            self._admission.take(len(piece))
            self._counted += len(piece)
            if self._counted > self._limit_bytes:
                raise self._too_large()
            pieces.append(piece)
        return pieces

    def _too_large(self) -> ClientError:
        return ClientError(413, "body_too_large", f"a body may have {self._limit_bytes} bytes")

    def forget(self) -> None:
        """Stop to count."""
        self._admission.give_back(self._counted)
        self._counted = 0


def _request_id(request: web.BaseRequest) -> str:
    """Return the client's id where it is a plain word, else a new one."""
    given = request.headers.get("X-Request-Id", "")
    return given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(16)
