"""Strategy `land`: the decoder takes the cache with a one-token request, then serves the request unchanged."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict

from dpd_router import sse
from dpd_router.config import Settings
from dpd_router.custodian import Custodian, Hit, Usage
from dpd_router.decision import Disaggregate
from dpd_router.eligibility import Reason
from dpd_router.errors import DECODER_LOST
from dpd_router.generation import DECISION_HEADER, Generation, Json, encode_json
from dpd_router.handoff import Handoff
from dpd_router.http1 import NOT_FOR_CLIENTS
from dpd_router.metrics import Metrics
from dpd_router.pool import Pool
from dpd_router.transfer.base import FallbackError, Served, Transfer
from dpd_router.transfer.decoding import ErrorEventError
from dpd_router.transfer.lane import Lane, own_headers
from dpd_router.trouble import Trouble
from dpd_router.upstream import Upstream, UpstreamError, chunks, gathered


class _Answer(msgspec.Struct):
    choices: list[msgspec.Raw] = []
    usage: Usage | None = None


_decode = msgspec.json.Decoder(_Answer).decode
# vLLM computes at most the last block of a cached prompt; blocks have 16 tokens, up to 128 with some backends
LARGEST_BLOCK_TOKENS = 128
_USAGE_MARK = b'"usage"'
_ERROR_MARK = b'{"error"'


class LandTransfer(Transfer):
    """Keeps vLLM's exact semantics for every text request, for one more decoder step."""

    def __init__(
        self,
        *,
        settings: Settings,
        lane: Lane,
        custodian: Custodian,
        pool: Pool,
        upstream: Upstream,
        trouble: Trouble,
        metrics: Metrics,
    ) -> None:
        self._timeouts = settings.timeouts
        self._lane = lane
        self._custodian = custodian
        self._pool = pool
        self._upstream = upstream
        self._trouble = trouble
        self._metrics = metrics

    async def serve(self, request: web.BaseRequest, generation: Generation, decision: Disaggregate) -> Served:
        """Answer a request; see `Transfer.serve`."""
        sampling: Json = {"temperature": 0, "min_tokens": 0}
        async with self._lane.shipment(generation, decision, sampling) as shipment:
            handoff = shipment.handoff
            await self._lane.await_landing(shipment)
            task = self._custodian.consume(handoff, self._land(generation, handoff))
            try:
                hit = await asyncio.shield(task)
            except UpstreamError as error:
                raise FallbackError(Reason.LANDING_FAILED) from error
            if hit in {Hit.MISS, Hit.PARTIAL}:
                raise FallbackError(Reason.LANDING_FAILED)
            return Served(response=await self._serve_landed(request, generation, handoff))

    async def _land(self, generation: Generation, handoff: Handoff) -> Hit:
        headers = own_headers(generation, f"land-{handoff.id}")
        try:
            usage = await self._custodian.take(handoff, handoff.consuming_prompt, headers)
        except UpstreamError as error:
            self._failed(handoff, error)
            raise
        self._custodian.consumed(handoff)
        return self._custodian.checked(handoff, usage)

    def _failed(self, handoff: Handoff, error: UpstreamError) -> None:
        self._custodian.report_failure(handoff, Reason.LANDING_FAILED, pair=False)
        self._trouble.report(handoff.decoder, error)

    async def _serve_landed(
        self, request: web.BaseRequest, generation: Generation, handoff: Handoff
    ) -> web.StreamResponse:
        body = {**generation.body, "cache_salt": handoff.salt}
        if generation.stream:
            options = generation.body.get("stream_options")
            body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        with self._pool.busy(handoff.decoder):
            try:
                upstream = await self._upstream.open(
                    handoff.decoder,
                    generation.kind,
                    encode_json(body),
                    generation.headers,
                    idle_timeout_seconds=self._timeouts.idle_timeout_seconds,
                )
            except UpstreamError as error:
                self._failed(handoff, error)
                raise FallbackError(Reason.DECODE_FAILED) from error
            try:
                if generation.stream and upstream.status == 200:
                    return await self._stream(request, generation, handoff, upstream)
                return await self._whole(request, generation, handoff, upstream)
            finally:
                upstream.release() if upstream.content.at_eof() else upstream.close()

    async def _whole(
        self,
        request: web.BaseRequest,
        generation: Generation,
        handoff: Handoff,
        upstream: aiohttp.ClientResponse,
    ) -> web.StreamResponse:
        try:
            body = await gathered(chunks(handoff.decoder, upstream, self._timeouts.idle_timeout_seconds))
        except UpstreamError as error:
            self._failed(handoff, error)
            raise FallbackError(Reason.DECODE_FAILED) from error
        if upstream.status >= 500:
            self._failed(handoff, UpstreamError("status", upstream.status))
            raise FallbackError(Reason.DECODE_FAILED)
        if upstream.status == 200:
            self._check(handoff, body)
        self._metrics.answered("disaggregated", generation.arrived_at)
        response = web.Response(
            status=upstream.status, body=body, headers=_headers(upstream, generation.request_id)
        )
        await response.prepare(request)
        await response.write_eof()
        return response

    async def _stream(
        self,
        request: web.BaseRequest,
        generation: Generation,
        handoff: Handoff,
        upstream: aiohttp.ClientResponse,
    ) -> web.StreamResponse:
        keep_usage = generation.stream_option("include_usage")
        events = self._events(handoff, upstream, keep_usage=keep_usage)
        try:
            # there is one: an end without an event is an error
            first = await anext(events)
        except UpstreamError as error:
            self._failed(handoff, error)
            raise FallbackError(Reason.DECODE_FAILED) from error
        self._metrics.answered("disaggregated", generation.arrived_at)
        response = web.StreamResponse(headers=_headers(upstream, generation.request_id))
        await response.prepare(request)
        await response.write(first)
        try:
            async for event in events:
                await response.write(event)
        except UpstreamError as error:
            self._failed(handoff, error)
            await response.write(b"data: " + DECODER_LOST + b"\n\n" + sse.DONE_EVENT)
        await response.write_eof()
        return response

    async def _events(
        self, handoff: Handoff, upstream: aiohttp.ClientResponse, *, keep_usage: bool
    ) -> AsyncIterator[bytes]:
        """Yield complete events, without the usage that the client did not ask for."""
        splitter = sse.EventSplitter()
        async for data in chunks(handoff.decoder, upstream, self._timeouts.idle_timeout_seconds):
            shown = bytearray()
            done = False
            for event in splitter.feed(data):
                if event.startswith(_ERROR_MARK):
                    self._trouble.report(handoff.decoder, ErrorEventError(event))
                if _USAGE_MARK in event and self._check(handoff, event) and not keep_usage:
                    continue
                shown += b"data: " + event + b"\n\n"
                done = done or event == sse.DONE
            if shown:
                yield bytes(shown)
            if done:
                return
        raise UpstreamError("broken")

    def _check(self, handoff: Handoff, answer: bytes) -> bool:
        """Check the cached tokens of an answer; return whether it is a stream's final usage."""
        try:
            parsed = _decode(answer)
        except (msgspec.DecodeError, msgspec.ValidationError):
            return False
        if parsed.usage is None or parsed.usage.prompt_tokens_details is None:
            return not parsed.choices
        cached = parsed.usage.prompt_tokens_details.cached_tokens
        # blocks can be evicted between the two steps; at most one block is computed otherwise
        if cached is not None and cached < len(handoff.ids) - LARGEST_BLOCK_TOKENS:
            self._custodian.report_failure(handoff, "cache_evicted", pair=False)
        return not parsed.choices


def _headers(upstream: aiohttp.ClientResponse, request_id: str) -> CIMultiDict[str]:
    kept = CIMultiDict(
        (name, value) for name, value in upstream.headers.items() if name.lower() not in NOT_FOR_CLIENTS
    )
    kept.setdefault("X-Request-Id", request_id)
    kept[DECISION_HEADER] = "disaggregated"
    return kept
