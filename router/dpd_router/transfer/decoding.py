"""The stream of completion chunks that a decoder sends for the router's own requests."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import msgspec

from dpd_router import sse
from dpd_router.custodian import Usage
from dpd_router.generation import Json, encode_json
from dpd_router.pool import Pool, Worker
from dpd_router.upstream import Upstream, UpstreamError, chunks, gathered


class Choice(msgspec.Struct):
    """One choice of a chunk."""

    text: str = ""
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class Chunk(msgspec.Struct):
    """One event of a completion stream."""

    choices: list[Choice] = []
    usage: Usage | None = None
    model: str = ""
    error: Any = None


_decode_chunk = msgspec.json.Decoder(Chunk).decode


class ErrorEventError(UpstreamError):
    """A worker reports an error inside of a stream that began with 200."""

    def __init__(self, event: bytes) -> None:
        super().__init__("error_event")
        self.event = event


@dataclasses.dataclass(slots=True, kw_only=True)
class Decoding:
    """An open stream whose first event is there."""

    worker: Worker
    first: Chunk
    events: AsyncIterator[Chunk]
    response: aiohttp.ClientResponse
    stack: contextlib.ExitStack

    async def chunks(self) -> AsyncIterator[Chunk]:
        """Yield every event.

        Raises:
            UpstreamError: the stream broke, or the worker reports an error in it.
        """
        yield self.first
        async for chunk in self.events:
            yield chunk

    async def rest(self) -> Usage | None:
        """Read on to the end for the usage, when nobody wants the text any more.

        Raises:
            UpstreamError: the stream broke, or the worker reports an error in it.
        """
        usage = None
        async for chunk in self.events:
            if not chunk.choices:
                usage = chunk.usage
        return usage

    def close(self) -> None:
        """End the stream; a worker that still generates stops."""
        self.response.close()
        self.stack.close()


async def open_decoding(
    upstream: Upstream,
    pool: Pool,
    worker: Worker,
    body: Json,
    headers: Mapping[str, str],
    *,
    idle_timeout_seconds: float,
) -> Decoding:
    """Send a streamed completion and return once its first event has come.

    Raises:
        UpstreamError: there was no first event, or it is an error.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(pool.busy(worker))
        response = await upstream.open(
            worker, "/v1/completions", encode_json(body), headers, idle_timeout_seconds=idle_timeout_seconds
        )
        stack.callback(response.close)
        events = _events(worker, response, idle_timeout_seconds)
        first = await anext(events, None)
        if first is None:  # an end without a beginning
            raise UpstreamError("malformed")
        return Decoding(worker=worker, first=first, events=events, response=response, stack=stack.pop_all())


async def _refusal(
    worker: Worker, response: aiohttp.ClientResponse, idle_timeout_seconds: float
) -> UpstreamError:
    body = await gathered(chunks(worker, response, idle_timeout_seconds))
    return UpstreamError("status", response.status, body)


async def _events(
    worker: Worker, response: aiohttp.ClientResponse, idle_timeout_seconds: float
) -> AsyncIterator[Chunk]:
    if response.status != 200:
        raise await _refusal(worker, response, idle_timeout_seconds)
    splitter = sse.EventSplitter()
    async for data in chunks(worker, response, idle_timeout_seconds):
        for event in splitter.feed(data):
            if event == sse.DONE:
                return
            yield _parse(event)
    # the connection ended before the stream did
    raise UpstreamError("broken")


def _parse(event: bytes) -> Chunk:
    try:
        chunk = _decode_chunk(event)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UpstreamError("malformed") from error
    if chunk.error is not None:
        raise ErrorEventError(event)
    return chunk
