"""Stop strings that begin in the first token's text and end in the decoder's.

The prefiller finds a stop string within the first token, the decoder one within what it generates.
Neither sees one that spans both. Where one can, the decoder gets no stop strings and this module
does what vLLM's detokenizer does, over the joined text.
"""

import dataclasses
from collections.abc import Sequence


def may_span(first_text: str, stops: Sequence[str]) -> bool:
    """Whether some stop string can begin at the end of the first token's text."""
    return any(
        first_text.endswith(stop[:length])
        for stop in stops
        for length in range(1, min(len(stop) - 1, len(first_text)) + 1)
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Text that may be shown now, and the stop string that ended the answer."""

    text: str
    stop: str | None = None


class StopMatcher:
    """Matches stop strings as vLLM does: token by token, with text held back that may be part of one."""

    def __init__(self, stops: Sequence[str], *, include: bool, min_tokens: int) -> None:
        self._stops = tuple(stops)
        self._include = include
        self._min_tokens = min_tokens
        self._held_back = 0 if include or not stops else max(len(stop) for stop in stops) - 1
        self._text = ""
        self._shown = 0

    def push(self, text: str, tokens: int, *, finished: bool = False) -> Piece:
        """Add the text of the newest tokens; `tokens` counts all output tokens so far."""
        new = len(text)
        self._text += text
        if tokens <= self._min_tokens:
            new = 0
        stop = self._match(new) if new else None
        if stop is not None:
            stop_text, end = stop
            self._text = self._text[:end]
            return Piece(text=self._show(len(self._text)), stop=stop_text)
        return Piece(text=self._show(len(self._text) - (0 if finished else self._held_back)))

    def _match(self, new: int) -> tuple[str, int] | None:
        for stop in self._stops:
            start = self._text.find(stop, max(0, len(self._text) - new - len(stop) + 1))
            if start != -1:
                return stop, start + len(stop) if self._include else start
        return None

    def _show(self, end: int) -> str:
        if end <= self._shown:
            return ""
        text = self._text[self._shown : end]
        self._shown = end
        return text
