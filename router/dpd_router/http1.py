"""As much of HTTP/1.1 as the direct path reads and writes itself."""

from collections.abc import Mapping
from typing import Final

from dpd_router.pool import Worker
from dpd_router.upstream import UpstreamError

HEAD_LIMIT_BYTES: Final = 64 * 1024
_CHUNK_LINE_LIMIT_BYTES: Final = 1024
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
NOT_FOR_CLIENTS: Final = HOP_BY_HOP | {"content-length", "date", "server"}
"""Headers of a worker's answer that the router writes anew."""
_DROPPED: Final = frozenset(name.encode() for name in NOT_FOR_CLIENTS)


class Framing:
    """Finds the end of a body; says nothing about what is in it."""

    __slots__ = ("_line", "_malformed", "_skip", "_trailer", "ended", "remaining")

    def __init__(self, content_length: int | None) -> None:
        """Begin a body of so many bytes, or one of chunks where that is None."""
        self.remaining = content_length
        self.ended = content_length == 0
        self._skip = 0
        self._line = b""
        self._trailer = False
        self._malformed = False  # some of the bytes were looked at then, and do not go on

    def feed(self, data: bytes) -> int:
        """Return how many bytes of `data` belong to the body.

        Raises:
            UpstreamError: this is not a chunked body.
        """
        if self.remaining is not None:
            taken = min(self.remaining, len(data))
            self.remaining -= taken
            self.ended = self.remaining == 0
            return taken
        position, length = 0, len(data)
        while position < length and not self.ended:
            if self._skip:
                step = min(self._skip, length - position)
                self._skip -= step
                position += step
            else:
                position = self._read_line(data, position)
        return position

    @property
    def between_chunks(self) -> bool:
        """Whether everything that goes on to the client was whole chunks, so that another one may follow."""
        whole = not (self._skip or self._line or self._trailer or self._malformed)
        return self.remaining is None and whole

    def _read_line(self, data: bytes, position: int) -> int:
        end = data.find(b"\n", position)
        if end == -1:
            self._line += data[position:]
            if len(self._line) > _CHUNK_LINE_LIMIT_BYTES:
                raise self._refused()
            return len(data)
        line = self._line + data[position:end]
        self._line = b""
        if self._trailer:
            self.ended = line in {b"\r", b""}
        else:
            self._skip = self._chunk_size(line)
        return end + 1

    def _chunk_size(self, line: bytes) -> int:
        digits = line.partition(b";")[0].strip()
        try:
            size = int(digits, 16) if digits.isalnum() else -1
        except ValueError:
            size = -1
        if size < 0:
            raise self._refused()
        if size == 0:
            self._trailer = True
            return 0
        return size + 2

    def _refused(self) -> UpstreamError:
        self._malformed = True
        return UpstreamError("malformed")


class Head:
    """Status and headers of a worker's answer.

    Attributes:
        interim: the answer itself follows.
        names_request: it has an `X-Request-Id`.
    """

    __slots__ = ("content_length", "headers", "interim", "names_request", "reason", "status", "will_close")

    def __init__(self, raw: bytes) -> None:
        """Parse the head.

        Raises:
            UpstreamError: it is not one of HTTP/1.1, or has a body without an announced end.
        """
        first, *lines = raw.split(b"\r\n")
        version, _, rest = first.partition(b" ")
        status, _, self.reason = rest.partition(b" ")
        if version != b"HTTP/1.1" or len(status) != 3 or not status.isdigit():
            raise UpstreamError("malformed")
        self.status = int(status)
        self.interim = self.status < 200
        self.headers: list[bytes] = []
        self.content_length: int | None = None
        self.will_close = False
        self.names_request = False
        chunked = False
        for line in lines:
            name, _, value = line.partition(b":")
            lowered, value = name.lower(), value.strip()
            if lowered == b"content-length" and value.isdigit():
                self.content_length = int(value)
            elif lowered == b"transfer-encoding":
                chunked = value.lower() == b"chunked"
            elif lowered == b"connection":
                self.will_close = b"close" in value.lower()
            elif lowered not in _DROPPED:
                self.headers.append(line)
                self.names_request = self.names_request or lowered == b"x-request-id"
        if chunked:
            self.content_length = None
        elif self.content_length is None and not self.interim:
            raise UpstreamError("malformed")

    @property
    def content_type(self) -> bytes:
        """Lower-case media type."""
        for line in self.headers:
            if line[:13].lower() == b"content-type:":
                return line[13:].partition(b";")[0].strip().lower()
        return b""

    def for_client(self, *, close: bool, more: tuple[bytes, ...] = ()) -> bytes:
        """Return the head as the client gets it, with `more` header lines."""
        length = self.content_length
        framing = b"Transfer-Encoding: chunked" if length is None else b"Content-Length: %d" % length
        lines = [b"HTTP/1.1 %d %s" % (self.status, self.reason), *self.headers, *more, framing]
        if close:
            lines.append(b"Connection: close")
        return b"\r\n".join(lines) + b"\r\n\r\n"


def request_head(worker: Worker, path: str, headers: Mapping[str, str], length: int) -> bytes:
    """Return the head of a POST."""
    lines = [f"POST {path} HTTP/1.1\r\nHost: {worker.key}\r\nContent-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")
