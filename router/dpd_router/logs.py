"""One JSON object per line, with the request's id and never a prompt."""

import contextvars
import datetime as dt
import logging
import os
import stat
from typing import Final

import msgspec

REQUEST_ID: Final[contextvars.ContextVar[str]] = contextvars.ContextVar("request_id", default="")

STANDARD_ERROR: Final = 2

_encode = msgspec.json.Encoder().encode


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON; `extra={"fields": {...}}` adds fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        line: dict[str, object] = {
            "time": dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := REQUEST_ID.get():
            line["request_id"] = request_id
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line.update(fields)
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self.formatException(record.exc_info)
        return _encode(line).decode()


class LineHandler(logging.Handler):
    """Writes lines to a file descriptor, and loses them where nobody reads on.

    A full pipe, as of a log collector that stalls, would otherwise stop the event loop with every request. What is
    lost is counted and told when there is room again.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._rest = b""
        self._lost = 0
        mode = os.fstat(descriptor).st_mode
        # a terminal is shared with other programs, and a file does not block
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            os.set_blocking(descriptor, False)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, and before it how many were lost."""
        try:
            line = self.format(record).encode() + b"\n"
        except Exception:  # noqa: BLE001 -- a record that cannot be written must not end what it tells about
            self.handleError(record)
            return
        if self._lost and self._write(self._told()):
            self._lost = 0
        if not self._write(line):
            self._lost += 1

    def _told(self) -> bytes:
        record = logging.makeLogRecord(
            {
                "name": __name__,
                "levelno": logging.WARNING,
                "levelname": "WARNING",
                "msg": "log lines lost: nobody read on",
                "fields": {"lines": self._lost},
            }
        )
        return self.format(record).encode() + b"\n"

    def _write(self, line: bytes) -> bool:
        """Write a line after what is left of the one before; return whether it was taken."""
        try:
            if self._rest:
                self._rest = self._rest[os.write(self._descriptor, self._rest) :]
            if not self._rest:
                self._rest = line[os.write(self._descriptor, line) :]
                return True
        except OSError:  # full, or gone: there is no other place to say so
            pass
        return False


def configure(level: str, descriptor: int = STANDARD_ERROR) -> None:
    """Send every log record as JSON to a file descriptor."""
    handler = LineHandler(descriptor)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # aiohttp's own access line is not wanted: the router writes one record per request itself
    logging.getLogger("aiohttp.access").setLevel(logging.ERROR)
