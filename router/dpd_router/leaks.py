"""Decoders whose buffer fills up although the router's books say that it is nearly empty.

Chunks can be lost where no answer tells: a decoder may report a complete hit and never load it, or
a client that is not this router may hand over prompts. Every metric of a single request is green
then, until nothing can be allocated any more. What tells is the sum: prefills are answered, no
notification comes, the drain finds nothing, the books have room, and the decoder has received
hand-offs before in this life. That last condition tells a lost buffer from a decoder that restarted
at an address which its prefillers still hold to be connected, of which nothing ever lands.
"""

import collections
import dataclasses
import logging
from typing import Final

from dpd_router.books import Books
from dpd_router.handoff import Handoff
from dpd_router.metrics import Metrics

log = logging.getLogger(__name__)

# hand-offs in a row, none of which larger than one that landed since; one may be lost by itself
EVIDENCE: Final = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Dry:
    chunks: int
    lost_chunks: int


@dataclasses.dataclass(slots=True)
class _Case:
    has_received: bool = False
    dry: collections.deque[_Dry] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=EVIDENCE)
    )

    @property
    def proven(self) -> bool:
        return self.has_received and len(self.dry) == EVIDENCE


class Leaks:
    """Collects evidence per decoder and names the ones that only a restart can help."""

    def __init__(self, books: Books, metrics: Metrics) -> None:
        self._books = books
        self._metrics = metrics
        self._cases: dict[str, _Case] = {}

    def leaking(self, decoder: str) -> bool:
        """Whether the buffer of a decoder must be leaking."""
        case = self._cases.get(decoder)
        return case is not None and case.proven

    def received(self, handoff: Handoff) -> None:
        """Note that a decoder had room for a hand-off: smaller ones that found none prove nothing any more."""
        case = self._case(handoff)
        if case is None:
            return
        was_leaking = case.proven
        case.has_received = True
        case.dry = collections.deque(
            (dry for dry in case.dry if dry.chunks > handoff.chunks), maxlen=EVIDENCE
        )
        if was_leaking and not case.proven:
            log.info("decoder's buffer takes hand-offs again", extra={"fields": _names(handoff)})
        if was_leaking:
            self._publish(handoff, case)

    def not_received(self, handoff: Handoff) -> None:
        """Note an open hand-off that was prefilled, never arrived, and of which a drain found nothing."""
        case = self._case(handoff)
        if case is None:
            return
        decoder = handoff.decoder.key
        capacity, reserved = self._books.size(decoder), self._books.outstanding(decoder)
        if reserved - handoff.chunks > capacity // 2:
            return  # it may have waited for the room of others
        # it would have fitted beside everything that the books know of: so much is certainly not there
        lost = max(1, capacity - reserved + 1)
        was_leaking = case.proven
        case.dry.append(_Dry(chunks=handoff.chunks, lost_chunks=lost))
        if case.proven:
            self._publish(handoff, case)
            if not was_leaking:
                log.error(
                    "decoder's buffer leaks: nothing can be handed over to it until it is restarted",
                    extra={"fields": {**_names(handoff), "lost_chunks": lost, "buffer_chunks": capacity}},
                )

    def forget(self, decoder: str) -> None:
        """Drop the case of a decoder that restarted or left: its buffer is gone with it."""
        if self._cases.pop(decoder, None) is not None:
            self._metrics.buffer_leaked.labels(decoder).set(0)

    def _case(self, handoff: Handoff) -> _Case | None:
        if handoff.decoder_incarnation != handoff.decoder.incarnation:
            return None
        return self._cases.setdefault(handoff.decoder.key, _Case())

    def _publish(self, handoff: Handoff, case: _Case) -> None:
        lost = min(dry.lost_chunks for dry in case.dry) if case.proven else 0
        self._books.presume_lost(handoff.decoder.key, handoff.decoder_incarnation, lost)
        self._metrics.buffer_leaked.labels(handoff.decoder.key).set(case.proven)


def _names(handoff: Handoff) -> dict[str, object]:
    return {"decoder": handoff.decoder.key, "chunks": handoff.chunks}
