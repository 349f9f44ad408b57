"""A real byte-level BPE tokenizer made of pseudo-words, and the chat template that goes with it.

Byte tokens make half characters possible, as in the vocabularies of Llama 3 and Qwen; the `tokenizers` library does
encoding and incremental decoding, as in vLLM, so that its behaviour at half characters is the real one.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

BEGIN_OF_TEXT = "<|begin_of_text|>"
START_HEADER = "<|start_header_id|>"
END_HEADER = "<|end_header_id|>"
END_OF_TURN = "<|eot_id|>"
SPECIAL_TOKENS = (BEGIN_OF_TEXT, START_HEADER, END_HEADER, END_OF_TURN)

# The vocabulary of the one-rank stand-in model of the measurements: clients send ids up to 16,000.
VOCABULARY_SIZE = 16_032
BYTE_TOKENS = 256


class Vocabulary:
    """Ids, texts and kinds of tokens; shared by all engines of a process."""

    def __init__(self) -> None:
        self.tokenizer = _build_tokenizer()
        self.size: int = self.tokenizer.get_vocab_size()
        self.end_of_turn_id: int = self._id(END_OF_TURN)
        self.byte_ids: tuple[int, ...] = tuple(self._id(letter) for letter in _byte_letters())
        self.byte_of_id: Mapping[int, int] = {token_id: byte for byte, token_id in enumerate(self.byte_ids)}
        self.first_word_id: int = self._id("ba")
        # Words end where the special tokens begin.
        self.words: int = min(self._id(token) for token in SPECIAL_TOKENS) - self.first_word_id

    def _id(self, token: str) -> int:
        token_id: int | None = self.tokenizer.token_to_id(token)
        if token_id is None:
            raise KeyError(token)
        return token_id

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Token ids of `text`; with `add_special_tokens` the begin-of-text token comes first."""
        return list(self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Text of `ids`."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def token_text(self, token_id: int) -> str:
        """Text of one token on its own, as vLLM prints it in log probabilities."""
        return self.decode([token_id])

    def token_piece(self, token_id: int) -> str:
        """The vocabulary entry of one token (`Ġ` for a space)."""
        return str(self.tokenizer.id_to_token(token_id))

    def render_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt text of a chat, in the manner of Llama 3.

        Raises:
            ValueError: a message has no role, or content that is not text.
        """
        parts = [BEGIN_OF_TEXT]
        preamble = {"tools": tools, **(template_kwargs or {})}
        if any(value is not None for value in preamble.values()):
            parts.append(_turn("ipython", json.dumps(preamble, sort_keys=True)))
        parts += [_turn(_role(message), _content(message)) for message in messages]
        text = "".join(parts)
        if continue_final_message:
            return text.removesuffix(END_OF_TURN)
        if add_generation_prompt:
            text += f"{START_HEADER}assistant{END_HEADER}\n\n"
        return text


@functools.cache
def shared_vocabulary() -> Vocabulary:
    """The vocabulary of this process (building it takes a few hundredths of a second)."""
    return Vocabulary()


def _turn(role: str, content: str) -> str:
    return f"{START_HEADER}{role}{END_HEADER}\n\n{content}{END_OF_TURN}"


def _role(message: Mapping[str, Any]) -> str:
    role = message.get("role")
    if not isinstance(role, str):
        raise ValueError("every message needs a `role`")  # noqa: TRY004 - answered as a bad request, as vLLM does
    return role


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if content is None:
        return json.dumps(message.get("tool_calls")) if message.get("tool_calls") else ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = []
        for part in content:
            if not isinstance(part, Mapping) or part.get("type") != "text":
                kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
                raise ValueError(f"this model takes text only, given a content part of type `{kind}`")
            texts.append(str(part.get("text", "")))
        return "\n".join(texts)
    raise ValueError("`content` must be a string or a list of parts")


def _byte_letters() -> list[str]:
    """The printable letter that stands for each byte in a byte-level vocabulary, in byte order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(BYTE_TOKENS) if byte not in set(printable)]
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(BYTE_TOKENS + index) for index, byte in enumerate(others)}
    return [letters[byte] for byte in range(BYTE_TOKENS)]


def _build_tokenizer() -> Tokenizer:
    space = _byte_letters()[0x20]
    vocabulary = {letter: index for index, letter in enumerate(_byte_letters())}
    merges: list[tuple[str, str]] = []

    def add(left: str, right: str) -> None:
        merges.append((left, right))
        vocabulary[left + right] = len(vocabulary)

    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvwxyz" for vowel in "aeiou"]
    for syllable in syllables:
        add(syllable[0], syllable[1])
    pairs = [(left, right) for left in syllables for right in syllables]
    room = VOCABULARY_SIZE - len(vocabulary) - len(pairs) - len(SPECIAL_TOKENS)
    for left, right in pairs:
        add(left, right)
    # A stride that is coprime to the number of pairs spreads the words that follow a space over all of them.
    for index in range(room):
        left, right = pairs[index * 7 % len(pairs)]
        add(space, left + right)

    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    begin = tokenizer.token_to_id(BEGIN_OF_TEXT)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN_OF_TEXT} $A", special_tokens=[(BEGIN_OF_TEXT, begin)]
    )
    return tokenizer
