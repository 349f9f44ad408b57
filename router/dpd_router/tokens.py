"""Counts and ids of prompt tokens: estimated, by an in-process tokenizer, or by a worker."""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import tokenizers

from dpd_router.generation import Generation, Json, Kind
from dpd_router.metrics import Metrics
from dpd_router.pool import Pool, Worker
from dpd_router.upstream import Upstream, UpstreamError, read_answer

# HyperPod's router and production-stack's estimate the same way: characters / 4
CHARACTERS_PER_TOKEN: Final = 4
_PROBE_TOKENS: Final = 512
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


class TokenizeError(Exception):
    """No worker could tokenize.

    Attributes:
        rejected: a worker refused the request itself, so that decoding it gives the same refusal.
    """

    def __init__(self, *, rejected: bool) -> None:
        super().__init__("rejected" if rejected else "failed")
        self.rejected = rejected


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedPrompt:
    """Prompt token ids and, where known, the model's context length in tokens."""

    ids: Sequence[int]
    max_model_len: int = 0


def prompt_text_sizes(generation: Generation) -> tuple[int, int]:
    """Return characters and UTF-8 bytes of the text that a client sent."""
    texts = _texts(generation.kind, generation.body)
    return sum(len(text) for text in texts), sum(
        len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")) for text in texts
    )


def _texts(kind: Kind, body: Json) -> list[str]:
    if kind is Kind.COMPLETION:
        prompt = body.get("prompt")
        return [prompt] if isinstance(prompt, str) else []
    texts: list[str] = []
    for message in _dicts(body.get("messages")):
        content = message.get("content")
        if isinstance(content, str):
            texts.append(content)
        else:
            texts.extend(part["text"] for part in _dicts(content) if isinstance(part.get("text"), str))
    return texts


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def affinity_prefix(kind: Kind, body: Json, limit_bytes: int) -> bytes:
    """Return the first bytes of a prompt, for affinity by prefix."""
    prompt = body.get("prompt")
    if isinstance(prompt, list):
        return msgspec.json.encode(prompt[: limit_bytes // 4])[:limit_bytes]
    collected = b""
    for text in _texts(kind, body):
        collected += text[:limit_bytes].encode("utf-8", "surrogatepass")
        if len(collected) >= limit_bytes:
            break
    return collected[:limit_bytes]


class FileTokenizer:
    """A `tokenizer.json` in this process.

    Attributes:
        probe: a text made of pieces of the whole vocabulary, which another tokenizer divides otherwise.
    """

    def __init__(self, path: Path) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        size = self._tokenizer.get_vocab_size()
        sampled = list(range(0, size, max(1, size // _PROBE_TOKENS)))
        self.probe = self.text_of(sampled, skip_special_tokens=True)

    async def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Return ids; runs in a thread because a long prompt takes tens of milliseconds."""
        encoding = await asyncio.to_thread(
            self._tokenizer.encode, text, add_special_tokens=add_special_tokens
        )
        return list(encoding.ids)

    def text_of(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Return the text of ids as a worker's detokenizer writes it."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def ends_within_character(self, ids: Sequence[int], *, skip_special_tokens: bool) -> bool:
        """Whether the text of ids ends in the middle of a character."""
        return self.text_of(ids, skip_special_tokens=skip_special_tokens).endswith(_REPLACEMENT)


class PromptTokenizer(Protocol):
    """What the decision needs of a tokenizer."""

    async def tokenize(self, generation: Generation) -> TokenizedPrompt:
        """Return the ids of a request's prompt.

        Raises:
            TokenizeError: there are none.
        """


class _TokenizeAnswer(msgspec.Struct):
    tokens: list[int]
    max_model_len: int = 0


_decode_answer = msgspec.json.Decoder(_TokenizeAnswer).decode


async def tokenize_at(
    upstream: Upstream, worker: Worker, body: Json, timeout_seconds: float
) -> _TokenizeAnswer:
    """Return what a worker's `/tokenize` says.

    Raises:
        UpstreamError: there was no answer.
    """
    return read_answer(_decode_answer, await upstream.post(worker, "/tokenize", body, timeout_seconds))


_COMPLETION_FIELDS: Final = ("model", "prompt", "add_special_tokens")
# fields that `/tokenize` reads for a chat, so that it renders exactly what the chat endpoint would
_CHAT_FIELDS: Final = (
    "model",
    "messages",
    "tools",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "chat_template",
    "chat_template_kwargs",
)


class Tokenization:
    """Tokenizes in this process where it can, otherwise through a worker's `/tokenize`."""

    def __init__(
        self,
        pool: Pool,
        upstream: Upstream,
        metrics: Metrics,
        *,
        timeout_seconds: float,
        file_tokenizer: Callable[[], FileTokenizer | None],
    ) -> None:
        """Keep the parts; `file_tokenizer` gives the tokenizer of this process where it may be used now."""
        self._pool = pool
        self._upstream = upstream
        self._metrics = metrics
        self._timeout_seconds = timeout_seconds
        self._file_tokenizer = file_tokenizer

    async def tokenize(self, generation: Generation) -> TokenizedPrompt:
        """Return the ids of a request's prompt.

        Raises:
            TokenizeError: no worker could tokenize.
        """
        body = generation.body
        prompt = body.get("prompt")
        if generation.kind is Kind.COMPLETION and isinstance(prompt, list):
            return TokenizedPrompt(ids=prompt)
        start = time.perf_counter()
        file = self._file_tokenizer()
        if generation.kind is Kind.COMPLETION and file is not None and isinstance(prompt, str):
            ids = await file.encode(prompt, add_special_tokens=body.get("add_special_tokens") is not False)
            self._metrics.tokenize.labels("process").observe(time.perf_counter() - start)
            return TokenizedPrompt(ids=ids)
        answer = await self._by_worker(generation)
        self._metrics.tokenize.labels("worker").observe(time.perf_counter() - start)
        return TokenizedPrompt(ids=answer.tokens, max_model_len=answer.max_model_len)

    async def _by_worker(self, generation: Generation) -> _TokenizeAnswer:
        fields = _CHAT_FIELDS if generation.kind is Kind.CHAT else _COMPLETION_FIELDS
        body: Json = {name: generation.body[name] for name in fields if generation.body.get(name) is not None}
        for worker in self._candidates():
            try:
                return await tokenize_at(self._upstream, worker, body, self._timeout_seconds)
            except UpstreamError as error:
                self._metrics.upstream_errors.labels(worker.role, error.kind).inc()
                if error.rejected:
                    raise TokenizeError(rejected=True) from error
        raise TokenizeError(rejected=False)

    def _candidates(self) -> list[Worker]:
        prefillers = sorted(self._pool.usable_prefillers(), key=lambda worker: worker.tokens)
        decoders = sorted(self._pool.usable_decoders(), key=lambda worker: worker.requests)
        return [*prefillers[:1], *decoders[:1], *prefillers[1:2]]
