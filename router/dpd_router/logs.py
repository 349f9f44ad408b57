"""One JSON object per line, with the request's id and never a prompt."""

import contextvars
import datetime as dt
import logging
import sys
from typing import Final, TextIO

import msgspec

REQUEST_ID: Final[contextvars.ContextVar[str]] = contextvars.ContextVar("request_id", default="")

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


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send every log record as JSON to `stream` (standard error by default)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # aiohttp's own access line is not wanted: the router writes one record per request itself
    logging.getLogger("aiohttp.access").setLevel(logging.ERROR)
