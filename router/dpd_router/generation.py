"""A client's request for generated text, parsed once."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from dpd_router.errors import ClientError

Json = dict[str, Any]

_decode = msgspec.json.Decoder().decode
encode_json = msgspec.json.Encoder().encode

# vLLM accepts these from anybody who reaches it. They name other requests' cache, other hosts to pull
# from, or the engine's own bookkeeping, so that a client of the router must not send them.
INTERNAL_FIELDS = frozenset(
    {
        "kv_transfer_params",
        "ec_transfer_params",
        "disagg_spec",
        "vllm_xargs",
        "request_id",
        "data_parallel_rank",
        "bootstrap_host",
        "bootstrap_port",
        "bootstrap_room",
    }
)
INTERNAL_PREFIX = "lmcache."

DECISION_HEADER = "X-DPD-Decision"
"""Header of an answer: how its request was served when the answer began (disaggregated, direct, fallback)."""


class Kind(enum.StrEnum):
    """The two endpoints that can be disaggregated."""

    COMPLETION = "/v1/completions"
    CHAT = "/v1/chat/completions"


def parse_body(raw: bytes) -> Json:
    """Return the JSON object of a request body, free of engine-internal fields.

    Raises:
        ClientError: it is no JSON object, or it has an engine-internal field.
    """
    try:
        body = _decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise ClientError(400, "malformed_json", "the body is not valid JSON") from None
    if not isinstance(body, dict):
        raise ClientError(400, "malformed_json", "the body is not a JSON object")
    for field in body:
        if field in INTERNAL_FIELDS or field.startswith(INTERNAL_PREFIX):
            raise ClientError(
                400, "internal_field", f"`{field}` is set by the router only; leave it out", parameter=field
            )
    return body


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One request.

    Attributes:
        raw: the body as it came.
        headers: those that go on to the worker.
        arrived_at: time of arrival on `time.perf_counter`.
        affinity_key: what keeps related requests on one decoder, where that is asked for.
    """

    kind: Kind
    request_id: str
    body: Json
    raw: bytes
    headers: Mapping[str, str]
    arrived_at: float = 0.0
    affinity_key: bytes | None = None

    @property
    def model(self) -> str | None:
        """Name of the model, or None for the worker's own."""
        model = self.body.get("model")
        return model if isinstance(model, str) else None

    @property
    def stream(self) -> bool:
        """Whether the client wants server-sent events."""
        return self.body.get("stream") is True

    def stream_option(self, name: str) -> bool:
        """Return a boolean of `stream_options`."""
        options = self.body.get("stream_options")
        return isinstance(options, dict) and options.get(name) is True
