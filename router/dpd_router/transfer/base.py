"""What every transfer offers to the HTTP side."""

import abc
import dataclasses

from aiohttp import web

from dpd_router.decision import Disaggregate
from dpd_router.eligibility import Reason
from dpd_router.generation import Generation
from dpd_router.upstream import UpstreamError


class NotTakenError(Exception):
    """No hand-off was begun; the request is decoded directly."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class FallbackError(Exception):
    """A hand-off failed before the client saw a byte; the request is decoded directly."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """An answer that a client got.

    Attributes:
        fallback: why its end was decoded without the hand-off, where it was.
    """

    response: web.StreamResponse
    fallback: Reason | None = None


class Transfer(abc.ABC):
    """Serves a request by prefilling it on one worker and decoding it on another."""

    @abc.abstractmethod
    async def serve(self, request: web.BaseRequest, generation: Generation, decision: Disaggregate) -> Served:
        """Answer a request.

        Raises:
            NotTakenError: no hand-off was begun.
            FallbackError: it failed and the client has seen nothing.
        """


def prefill_reason(error: UpstreamError) -> Reason:
    """Return the outcome that a failed prefill stands for."""
    if error.unsent:
        return Reason.PREFILL_UNREACHABLE
    if error.kind == "timeout":
        return Reason.PREFILL_TIMEOUT
    if error.kind == "malformed":
        return Reason.PREFILL_MALFORMED
    return Reason.PREFILL_REJECTED if error.rejected else Reason.PREFILL_FAILED
