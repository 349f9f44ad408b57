"""Prompts that nobody has seen before: of a known one, a cache would have the beginning."""

import secrets
from typing import Final

_WORDS: Final = (
    "river", "stone", "house", "green", "winter", "small", "paper", "music", "table", "light", "water", "garden",
    "silver", "morning", "letter", "window", "summer", "bridge", "market", "yellow", "forest", "travel", "picture",
    "simple", "village", "kitchen", "hundred", "animal", "season", "number", "corner", "island",
)  # fmt: skip
"""Words of at least one token and, with their space, at least six characters: a router that takes characters / 4 for
tokens counts more of them than there are words, too."""

_MOST_SHORT_WORDS: Final = 96
_LEAST_SHORT_WORDS: Final = 8
_MOST_TOKENS_PER_WORD: Final = 8

MARGIN_OF_A_SHORT_PROMPT: Final = 1.25
"""Factor on the tokens per word of a short prompt: words of a long one may have more."""

MARGIN_OF_A_LONG_PROMPT: Final = 1.05
"""Factor on those of a long one."""

OUTPUT_TOKENS: Final = 4
"""Tokens asked for. A hand-off needs two at least."""

CONTEXT_MARGIN_TOKENS: Final = 64
"""For the answer, and for what a chat template adds."""


def text(words: int) -> str:
    """Return `words` random words."""
    return " ".join(secrets.choice(_WORDS) for _ in range(words))


def short_words(threshold_tokens: int | None) -> int:
    """Return how many words surely stay below the threshold; many, so that what a chat template adds weighs little."""
    if threshold_tokens is None:
        return _MOST_SHORT_WORDS
    return min(_MOST_SHORT_WORDS, max(_LEAST_SHORT_WORDS, threshold_tokens // _MOST_TOKENS_PER_WORD))


def long_words(
    threshold_tokens: int, *, chunk_tokens: int, longest_tokens: int, tokens_per_word: float
) -> int:
    """Return how many words surely reach the threshold, and two chunks beyond where the context has room.

    Args:
        threshold_tokens: tokens that must be reached; a word is at least one.
        chunk_tokens: tokens per chunk.
        longest_tokens: tokens that must not be exceeded.
        tokens_per_word: most tokens that a word takes on average.
    """
    wanted = max(threshold_tokens, chunk_tokens) + 2 * chunk_tokens
    room = int((longest_tokens - CONTEXT_MARGIN_TOKENS) / max(1.0, tokens_per_word))
    return max(1, min(wanted, room))
