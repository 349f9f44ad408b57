"""The simulated language model: scores of the next token as a function of every id before it.

As in a real decoder-only model, the scores depend on the ids alone, not on which of them came as prompt and which as
output. Everything that a sampler adds on top of the ids (penalties over output tokens, the generator's position,
minimum lengths) is in `sampling`, so that a router which moves the border between prompt and output gets other text.
"""

import array
import hashlib
import struct
from collections.abc import Sequence

from dpd_simulator.tokenizer import Vocabulary

_LANES = 8
_COMMON_WORDS = 10
_END_OF_TURN_BELOW = 4  # of 256: about one token in 64 ends the turn
_LEADING_BYTE_BELOW = 24  # of 256: about one lane in ten starts a character of several bytes

# Leading bytes without restrictions on the byte that follows, and how many bytes follow.
_LEADING_BYTES: tuple[int, ...] = (*range(0xC3, 0xE0), *range(0xE1, 0xED), *range(0xF1, 0xF4))
_LAST_OF_TWO, _LAST_OF_THREE = 0xE0, 0xF0

_HIGHEST_SCORE = 6.0
_SCORE_UNIT = _HIGHEST_SCORE / 2**32
_unpack = struct.Struct(f"<{_LANES}Q").unpack

Scores = dict[int, float]


class ModelState:
    """The model's view of one sequence."""

    __slots__ = ("_continuation_bytes", "_digest", "_vocabulary")

    def __init__(self, vocabulary: Vocabulary, ids: Sequence[int], *, guide: bytes = b"") -> None:
        """Read the prompt.

        Args:
            vocabulary: tokens that can be generated.
            ids: the prompt.
            guide: whatever else steers the output, for example a grammar.
        """
        self._vocabulary = vocabulary
        self._digest = hashlib.blake2b(guide, digest_size=8 * _LANES)
        self._continuation_bytes = 0
        self._digest.update(array.array("I", ids).tobytes())
        for token_id in ids[-4:]:
            self._follow_bytes(token_id)

    def append(self, token_id: int) -> None:
        """Add one token, whether it came from a prompt or was sampled."""
        self._digest.update(token_id.to_bytes(4, "little"))
        self._follow_bytes(token_id)

    def corrupt(self) -> None:
        """Read KV cache bytes that nobody wrote: every later score is different."""
        self._digest.update(b"unwritten")

    def scores(self) -> Scores:
        """Unnormalized log probabilities of the few tokens that can follow."""
        lanes = _unpack(self._digest.copy().digest())
        vocabulary = self._vocabulary
        scores: Scores = {}
        for lane, bits in enumerate(lanes):
            choice = bits >> 8 & 0xFFFFFF
            if self._continuation_bytes:
                token_id = vocabulary.byte_ids[0x80 + choice % 0x40]
            elif bits & 0xFF < _LEADING_BYTE_BELOW and lane:
                token_id = vocabulary.byte_ids[_LEADING_BYTES[choice % len(_LEADING_BYTES)]]
            else:
                # Three lanes in four draw from a few words, so that outputs repeat themselves and penalties matter.
                words = _COMMON_WORDS if lane % 4 else vocabulary.words
                token_id = vocabulary.first_word_id + choice % words
            score = (bits >> 32) * _SCORE_UNIT
            if score > scores.get(token_id, -1.0):
                scores[token_id] = score
        if lanes[0] & 0xFF < _END_OF_TURN_BELOW and not self._continuation_bytes:
            scores[vocabulary.end_of_turn_id] = 8.0
        return scores

    def _follow_bytes(self, token_id: int) -> None:
        byte = self._vocabulary.byte_of_id.get(token_id)
        if byte is None or byte < 0x80:
            self._continuation_bytes = 0
        elif byte < 0xC0:
            self._continuation_bytes = max(0, self._continuation_bytes - 1)
        else:
            self._continuation_bytes = 1 if byte < _LAST_OF_TWO else 2 if byte < _LAST_OF_THREE else 3
