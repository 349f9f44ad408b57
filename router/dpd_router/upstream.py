"""Requests to workers, with errors that say what is known about the request's fate."""

import asyncio
import dataclasses
import errno
import socket
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import Any, Final, TypeVar

import aiohttp
import msgspec
from multidict import CIMultiDict

from dpd_router.config import Timeouts
from dpd_router.pool import Worker
from dpd_router.sockets import end_when_silent

_encode = msgspec.json.Encoder().encode
_T = TypeVar("_T")

JSON_HEADERS: Final = {"Content-Type": "application/json"}
# a worker's JSON answer to the router's own requests: tokenizing the longest prompt gives about 10 bytes per token
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
# A worker's machine that fails takes its answers along without a word, and TCP alone gives up after a quarter of an
# hour, or never where it only waits. `--idle-timeout-seconds` is longer, for engines that are.
GONE_SECONDS: Final = 30.0
_BUSY_STATUSES: Final = frozenset({408, 429})
# the router's own want: every worker would look dead to a router without files
_LOCAL_ERRORS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}
)


class UpstreamError(Exception):
    """A worker did not do what was asked.

    Attributes:
        kind: a stable word for the metric: `refused` (nothing listens), `unreachable` (no connection),
            `local` (this machine has no file, port or memory left for one), `broken` (the connection ended),
            `timeout`, `status` or `malformed`.
        status: the worker's HTTP status, where there is one.
        body: the worker's answer to that status.
    """

    def __init__(self, kind: str, status: int | None = None, body: bytes = b"") -> None:
        super().__init__(kind if status is None else f"{kind} {status}")
        self.kind = kind
        self.status = status
        self.body = body

    @property
    def unsent(self) -> bool:
        """Whether the worker certainly never saw the request."""
        return self.kind in {"refused", "unreachable", "local"}

    @property
    def rejected(self) -> bool:
        """Whether the worker refused the request before any work."""
        return self.status is not None and 400 <= self.status < 500

    @property
    def final(self) -> bool:
        """Whether another worker would refuse the request as well: it is wrong, and the worker not only busy."""
        return self.rejected and self.status not in _BUSY_STATUSES


def read_answer(decode: Callable[[bytes], _T], answer: bytes) -> _T:
    """Return a worker's JSON answer as `decode` reads it.

    Raises:
        UpstreamError: it cannot be read.
    """
    try:
        return decode(answer)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UpstreamError("malformed") from error


def classify(error: BaseException) -> UpstreamError:
    """Return the error of a failed request in the router's words."""
    if isinstance(error, UpstreamError):
        return error
    if isinstance(error, aiohttp.ClientConnectorError):
        return not_connected(error.os_error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return UpstreamError("unreachable")
    if isinstance(error, TimeoutError):
        return UpstreamError("timeout")
    if isinstance(error, (aiohttp.ClientError, OSError)):
        return UpstreamError("broken")
    if isinstance(error, (msgspec.DecodeError, msgspec.ValidationError)):
        return UpstreamError("malformed")
    raise error


def not_connected(error: OSError) -> UpstreamError:
    """Return the error of a connection that could not be made."""
    if error.errno == errno.ECONNREFUSED:
        return UpstreamError("refused")
    return UpstreamError("local" if error.errno in _LOCAL_ERRORS else "unreachable")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A worker's complete answer."""

    status: int
    body: bytes


class Upstream:
    """The HTTP client; one per router."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._session: aiohttp.ClientSession | None = None
        self._checks: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the connection pools."""
        self._session = self._open_session(
            aiohttp.TCPConnector(limit=0, keepalive_timeout=4, socket_factory=_open_socket)
        )
        # A check has to see whether a worker still accepts connections. And aiohttp takes the connection that was idle for
        # longest, so that checks in the other pool would keep all of a burst's connections from ever being closed.
        self._checks = self._open_session(aiohttp.TCPConnector(limit=0, force_close=True))

    def _open_session(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect_timeout_seconds),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),
            cookie_jar=aiohttp.DummyCookieJar(),
            # a worker's redirect would lead outside of the pool
            requote_redirect_url=False,
        )

    async def stop(self) -> None:
        """Close every connection."""
        for session in (self._session, self._checks):
            if session is not None:
                await session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open session for requests."""
        assert self._session is not None
        return self._session

    async def check(self, worker: Worker, path: str, timeout_seconds: float) -> Answer:
        """Return the answer to a GET over a new connection, as a request would need one.

        Raises:
            UpstreamError: there was no answer.
        """
        assert self._checks is not None
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self._checks.get(worker.url + path, allow_redirects=False) as response,
            ):
                return Answer(status=response.status, body=await gathered(response.content.iter_any()))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise classify(error) from error

    async def post(
        self,
        worker: Worker,
        path: str,
        body: Mapping[str, Any],
        timeout_seconds: float,
        headers: Mapping[str, str] = JSON_HEADERS,
    ) -> bytes:
        """Return the body of a 200 answer to a POST.

        Raises:
            UpstreamError: there was no answer, or another status.
        """
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self.session.post(
                    worker.url + path, data=_encode(body), headers=_readable(headers), allow_redirects=False
                ) as response,
            ):
                answer = await gathered(response.content.iter_any())
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise classify(error) from error
        worker.heard = True
        if response.status != 200:
            raise UpstreamError("status", response.status, answer)
        return answer

    async def open(
        self,
        worker: Worker,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        idle_timeout_seconds: float,
    ) -> aiohttp.ClientResponse:
        """Send a POST and return its response once the head is there; the caller closes it.

        Raises:
            UpstreamError: there was no response, or silence for too long.
        """
        try:
            async with asyncio.timeout(idle_timeout_seconds):
                return await self.session.post(
                    worker.url + path, data=body, headers=_readable(headers), allow_redirects=False
                )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise classify(error) from error


def _readable(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Return headers that ask for an answer as it is: the router reads it, whatever its client can decompress."""
    asked = CIMultiDict(headers)
    asked["Accept-Encoding"] = "identity"
    return asked


def _open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    connection = socket.socket(family, kind, protocol)
    end_when_silent(connection, GONE_SECONDS)
    return connection


async def gathered(pieces: AsyncIterable[bytes]) -> bytes:
    """Return the whole of a worker's answer.

    Raises:
        UpstreamError: it is larger than `MAX_ANSWER_BYTES`.
    """
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise UpstreamError("malformed")
    return bytes(body)


async def chunks(
    worker: Worker, response: aiohttp.ClientResponse, idle_timeout_seconds: float
) -> AsyncIterator[bytes]:
    """Yield the bytes of a worker's response as they come.

    Raises:
        UpstreamError: the connection broke or was silent for too long.
    """
    content = response.content
    try:
        while True:
            async with asyncio.timeout(idle_timeout_seconds):
                data = await content.readany()
            if not data:
                return
            worker.heard = True
            yield data
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise classify(error) from error
