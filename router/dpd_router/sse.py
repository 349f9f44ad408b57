"""Server-sent events: cut a byte stream into the data of its events."""

from collections.abc import Iterator
from typing import Final

from dpd_router.upstream import UpstreamError

DONE: Final = b"[DONE]"
DONE_EVENT: Final = b"data: [DONE]\n\n"
CONTENT_TYPE: Final = "text/event-stream"
# a worker that never ends an event must not fill the router's memory
MAX_EVENT_BYTES: Final = 16 * 1024 * 1024


class EventSplitter:
    """Collects bytes and yields the data of every complete event."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the data of the events that `data` completes.

        Raises:
            UpstreamError: one event is larger than `MAX_EVENT_BYTES`.
        """
        data = self._rest + data if self._rest else data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        *events, self._rest = data.split(b"\n\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise UpstreamError("malformed")
        for event in events:
            lines = [line for line in event.split(b"\n") if line.startswith(b"data:")]
            if lines:
                yield b"\n".join(line[5:].removeprefix(b" ") for line in lines)

    @property
    def rest(self) -> bytes:
        """Bytes of an event that has not ended."""
        return self._rest
