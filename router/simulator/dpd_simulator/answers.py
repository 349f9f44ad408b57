"""Answers of vLLM's OpenAI-compatible API, field by field as vLLM 0.25.1 writes them."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dpd_simulator.protocol import ChatRequest, CompletionRequest, GenerationRequest
from dpd_simulator.sampling import LOWEST_LOGPROB, SampledToken
from dpd_simulator.sequence import Output
from dpd_simulator.tokenizer import Vocabulary

FINGERPRINT = "vllm-0.25.1-simulated"

encode_json = msgspec.json.Encoder().encode


def event(body: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + encode_json(body) + b"\n\n"


DONE = b"data: [DONE]\n\n"


def error_body(message: str, *, status: int, parameter: str | None = None) -> dict[str, Any]:
    """An error object; the type follows from the status."""
    kinds = {
        400: "BadRequestError",
        404: "NotFoundError",
        422: "UnprocessableEntityError",
        501: "NotImplementedError",
    }
    kind = kinds.get(status, "InternalServerError")
    return {"error": {"message": message, "type": kind, "param": parameter, "code": status}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of an answer; `cached_tokens` is None when the server does not tell."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None

    def body(self, *, with_nulls: bool) -> dict[str, Any]:
        """The usage object."""
        body: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "completion_tokens": self.completion_tokens,
        }
        if self.cached_tokens is not None:
            body["prompt_tokens_details"] = {"cached_tokens": self.cached_tokens}
            if with_nulls:
                body["prompt_tokens_details"]["multimodal_tokens"] = None
        elif with_nulls:
            body["prompt_tokens_details"] = None
        return body


class TokenTexts:
    """How tokens are printed in log probabilities."""

    def __init__(self, vocabulary: Vocabulary, request: GenerationRequest) -> None:
        self._vocabulary = vocabulary
        self._as_ids = bool(request.return_tokens_as_token_ids)

    def text(self, token_id: int) -> str:
        """Text of one token, or its number if the request asks for that."""
        return f"token_id:{token_id}" if self._as_ids else self._vocabulary.token_text(token_id)

    def chat(self, tokens: Iterable[SampledToken], *, best: int) -> dict[str, Any]:
        """`logprobs` of a chat choice."""
        return {"content": [self._chat_token(token, best=best) for token in tokens]}

    def _chat_token(self, token: SampledToken, *, best: int) -> dict[str, Any]:
        pairs = token.logprobs or ((token.token_id, LOWEST_LOGPROB),)
        ranked = sorted(pairs, key=lambda pair: -pair[1])[: None if best < 0 else best]
        return self._entry(*pairs[0]) | {"top_logprobs": [self._entry(*pair) for pair in ranked]}

    def _entry(self, token_id: int, logprob: float) -> dict[str, Any]:
        raw = self._vocabulary.token_text(token_id).encode()
        return {"token": self.text(token_id), "logprob": logprob, "bytes": list(raw)}

    def completion(self, tokens: Sequence[SampledToken], *, offset: int) -> dict[str, Any]:
        """`logprobs` of a completion choice; a token without log probabilities is the first of an echoed prompt."""
        offsets, values, texts, tops = [], [], [], []
        for token in tokens:
            text = self.text(token.token_id)
            offsets.append(offset)
            offset += len(text)
            texts.append(text)
            values.append(None if token.logprobs is None else token.logprobs[0][1])
            tops.append(
                None
                if token.logprobs is None
                else {self.text(other): value for other, value in token.logprobs}
            )
        return {"text_offset": offsets, "token_logprobs": values, "tokens": texts, "top_logprobs": tops}


def ids_of(tokens: Iterable[SampledToken]) -> list[int]:
    """Their token ids."""
    return [token.token_id for token in tokens]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What all parts of one answer have in common."""

    answer_id: str
    created: int
    model: str

    def body(self, kind: str) -> dict[str, Any]:
        """The beginning of every object."""
        return {"id": self.answer_id, "object": kind, "created": self.created, "model": self.model}


def completion_chunk(
    head: Head,
    *,
    request: CompletionRequest,
    index: int,
    output: Output,
    text: str,
    logprobs: dict[str, Any] | None,
    prompt_ids: Sequence[int] | None,
) -> dict[str, Any]:
    """One chunk of a streamed completion."""
    return head.body("text_completion") | {
        "choices": [
            {
                "index": index,
                "text": text,
                "logprobs": logprobs,
                "finish_reason": output.finish_reason,
                "stop_reason": output.stop_reason,
                "prompt_token_ids": None if prompt_ids is None else list(prompt_ids),
                "token_ids": ids_of(output.tokens) if request.return_token_ids else None,
            }
        ]
    }


def completion_choice(
    *,
    request: CompletionRequest,
    index: int,
    output: Output,
    text: str,
    logprobs: dict[str, Any] | None,
    prompt_ids: Sequence[int],
    prompt_logprobs: list[Any] | None,
) -> dict[str, Any]:
    """One choice of a whole completion."""
    return {
        "index": index,
        "text": text,
        "logprobs": logprobs,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "token_ids": ids_of(output.tokens) if request.return_token_ids else None,
        "prompt_logprobs": prompt_logprobs,
        "prompt_token_ids": list(prompt_ids) if request.return_token_ids else None,
        "routed_experts": None,
    }


def completion(
    head: Head, *, choices: list[dict[str, Any]], usage: Usage, kv_transfer_params: dict[str, Any] | None
) -> dict[str, Any]:
    """A whole completion."""
    return head.body("text_completion") | {
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": usage.body(with_nulls=True),
        "kv_transfer_params": kv_transfer_params,
        "metrics": None,
    }


def chat_first_chunk(
    head: Head, *, index: int, role: str, prompt_ids: Sequence[int] | None
) -> dict[str, Any]:
    """The chunk that names the role, before any text."""
    return head.body("chat.completion.chunk") | {
        "choices": [
            {"index": index, "delta": {"role": role, "content": ""}, "logprobs": None, "finish_reason": None}
        ],
        "prompt_token_ids": None if prompt_ids is None else list(prompt_ids),
        "prompt_text": None,
    }


def chat_chunk(
    head: Head,
    *,
    request: ChatRequest,
    index: int,
    output: Output,
    delta: dict[str, Any],
    logprobs: dict[str, Any] | None,
) -> dict[str, Any]:
    """One chunk of a streamed chat answer."""
    choice = {
        "index": index,
        "delta": delta,
        "logprobs": logprobs,
        "finish_reason": output.finish_reason,
        "token_ids": ids_of(output.tokens) if request.return_token_ids else None,
    }
    if output.finish_reason is not None:
        choice["stop_reason"] = output.stop_reason
    return head.body("chat.completion.chunk") | {"choices": [choice]}


def chat_choice(
    *,
    request: ChatRequest,
    index: int,
    output: Output,
    message: dict[str, Any],
    logprobs: dict[str, Any] | None,
) -> dict[str, Any]:
    """One choice of a whole chat answer."""
    return {
        "index": index,
        "message": message,
        "logprobs": logprobs,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "token_ids": ids_of(output.tokens) if request.return_token_ids else None,
        "routed_experts": None,
    }


def chat_message(*, role: str, content: str, tool_calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The message of a whole chat answer."""
    message: dict[str, Any] = {
        "role": role,
        "content": content,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
    }
    if tool_calls:
        message["tool_calls"] = tool_calls
    return message | {"reasoning": None}


def tool_call(name: str, arguments: str) -> dict[str, Any]:
    """A call of the function that the request forced; the arguments are the model's text."""
    return {
        "id": f"chatcmpl-tool-{uuid.uuid4().hex}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def chat(
    head: Head,
    *,
    choices: list[dict[str, Any]],
    usage: Usage,
    prompt_ids: Sequence[int] | None,
    prompt_logprobs: list[Any] | None,
    kv_transfer_params: dict[str, Any] | None,
) -> dict[str, Any]:
    """A whole chat answer."""
    return head.body("chat.completion") | {
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": usage.body(with_nulls=True),
        "prompt_logprobs": prompt_logprobs,
        "prompt_token_ids": None if prompt_ids is None else list(prompt_ids),
        "prompt_text": None,
        "kv_transfer_params": kv_transfer_params,
        "metrics": None,
    }


def usage_chunk(head: Head, *, kind: str, usage: Usage) -> dict[str, Any]:
    """The last chunk of a stream that asked for usage."""
    return head.body(kind) | {
        "choices": [],
        "usage": usage.body(with_nulls=False),
        "system_fingerprint": FINGERPRINT,
    }
