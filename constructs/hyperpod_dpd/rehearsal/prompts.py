"""Requests of a rehearsal: token ids, so that lengths are exact, and no two prompts alike."""

import json
import random
from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.planner.workload import Lengths, LengthSource
from hyperpod_dpd.spec.value import record

_FIRST_WORD: Final = 400
_LAST_WORD: Final = 15_000
"""Ids that are whole words, in the simulated vocabulary as in any real one of its size."""


@record
class Request:
    """One request, ready to be sent."""

    lengths: Lengths
    body: bytes


def requests(model: str, lengths: LengthSource, *, seed: int) -> Iterator[Request]:
    """Yield requests for streamed completions of exactly as many tokens as `lengths` draws, without end.

    A prompt whose first answered token would be half a character is drawn again. The router decodes such a request
    directly, because the first token has no text yet; that is one prompt in ten with the simulated vocabulary and hardly
    any with a real one.
    """
    source = random.Random(seed)  # noqa: S311 -- text, no secrets
    while True:
        drawn = lengths.draw(source)
        ids = _prompt(source, drawn.input_tokens)
        body = {
            "model": model,
            "prompt": ids,
            "max_tokens": drawn.output_tokens,
            "min_tokens": drawn.output_tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        yield Request(lengths=drawn, body=json.dumps(body, separators=(",", ":")).encode())


def _prompt(source: random.Random, tokens: int) -> list[int]:
    # whoever only asks for help, or has not installed it, gets an answer all the same
    from dpd_simulator.model import ModelState  # noqa: PLC0415
    from dpd_simulator.tokenizer import shared_vocabulary  # noqa: PLC0415

    vocabulary = shared_vocabulary()
    words = range(vocabulary.first_word_id, vocabulary.first_word_id + vocabulary.words)
    while True:
        ids = source.choices(range(_FIRST_WORD, _LAST_WORD), k=tokens)
        scores = ModelState(vocabulary, ids).scores()
        if max(scores, key=lambda token: scores[token]) in words:
            return ids
