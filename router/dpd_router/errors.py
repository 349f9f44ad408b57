"""Errors that a client sees, in OpenAI's form."""

import dataclasses
from typing import Final

import msgspec

_encode = msgspec.json.Encoder().encode

_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    502: "upstream_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}


@dataclasses.dataclass(eq=False)
class ClientError(Exception):
    """A request that the router itself answers with an error.

    Attributes:
        status: the HTTP status.
        code: a stable word for programs and the metric.
        message: a sentence for people.
        parameter: the field of the request that is wrong.
        retry_after_seconds: value of `Retry-After`.
    """

    status: int
    code: str
    message: str
    parameter: str | None = None
    retry_after_seconds: int | None = None

    def body(self) -> bytes:
        """Return the JSON body in OpenAI's form."""
        return error_body(self.status, self.code, self.message, self.parameter)


def error_body(status: int, code: str, message: str, parameter: str | None = None) -> bytes:
    """Return an error as OpenAI writes it."""
    kind = _TYPES.get(status, "internal_error")
    return _encode({"error": {"message": message, "type": kind, "param": parameter, "code": code}})


DECODER_LOST: Final = error_body(502, "decoder_lost", "the decoder ended before its answer did")
"""The last event of a stream that cannot be resumed."""
