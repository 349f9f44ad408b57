"""Answers that the router writes itself: completions and chat, streamed or whole, as vLLM writes them."""

import abc
import dataclasses
import time
from typing import Any

from aiohttp import web

from dpd_router import sse
from dpd_router.generation import DECISION_HEADER, Generation, Json, Kind, encode_json
from dpd_router.metrics import Metrics


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Why an answer ended."""

    reason: str
    stop_reason: int | str | None = None


class Answer(abc.ABC):
    """What a client gets for one request.

    Attributes:
        started: whether the client has seen a byte, after which no other answer can be given.
    """

    def __init__(
        self, request: web.BaseRequest, generation: Generation, metrics: Metrics, prompt_tokens: int
    ) -> None:
        self._request = request
        self._generation = generation
        self._prompt_tokens = prompt_tokens
        self._role = role_of(generation)
        self._created = int(time.time())
        self._model = generation.model or ""
        self._metrics = metrics
        self.started = False
        self.headers: dict[str, str] = {
            "X-Request-Id": generation.request_id,
            DECISION_HEADER: "disaggregated",
        }

    def _begin(self) -> None:
        self.started = True
        self._metrics.answered("disaggregated", self._generation.arrived_at)

    @property
    def _id(self) -> str:
        prefix = "chatcmpl" if self._generation.kind is Kind.CHAT else "cmpl"
        return f"{prefix}-{self._generation.request_id}"

    def named(self, model: str) -> None:
        """Take over the model's name from the first worker that answers."""
        self._model = model

    def _usage(self, completion_tokens: int) -> Json:
        return {
            "prompt_tokens": self._prompt_tokens,
            "total_tokens": self._prompt_tokens + completion_tokens,
            "completion_tokens": completion_tokens,
        }

    @abc.abstractmethod
    async def text(self, text: str, completion_tokens: int, /, finish: Finish | None = None) -> None:
        """Add text; `completion_tokens` counts all output tokens so far."""

    @abc.abstractmethod
    async def end(self, completion_tokens: int) -> web.StreamResponse:
        """Complete the answer."""

    @abc.abstractmethod
    async def fail(self, event: bytes) -> web.StreamResponse:
        """End a started answer with an error."""


class StreamedAnswer(Answer):
    """Server-sent events."""

    def __init__(
        self, request: web.BaseRequest, generation: Generation, metrics: Metrics, prompt_tokens: int
    ) -> None:
        super().__init__(request, generation, metrics, prompt_tokens)
        self._response: web.StreamResponse | None = None
        self._include_usage = generation.stream_option("include_usage")
        self._continuous = self._include_usage and generation.stream_option("continuous_usage_stats")
        self._head = b""

    async def _started(self) -> web.StreamResponse:
        if self._response is None:
            response = web.StreamResponse(
                headers={**self.headers, "Content-Type": sse.CONTENT_TYPE + "; charset=utf-8"}
            )
            await response.prepare(self._request)
            self._response = response
            self._begin()
            kind = "text_completion" if self._generation.kind is Kind.COMPLETION else "chat.completion.chunk"
            head = encode_json(
                {"id": self._id, "object": kind, "created": self._created, "model": self._model}
            )
            self._head = b"data: " + head[:-1] + b',"choices":['
            if self._generation.kind is Kind.CHAT:
                await response.write(
                    self._event(b'{"role":' + encode_json(self._role) + b',"content":""}', None, 0)
                )
        return self._response

    async def text(self, text: str, completion_tokens: int, /, finish: Finish | None = None) -> None:
        """Send an event at once."""
        response = await self._started()
        shown = encode_json(text)
        if self._generation.kind is Kind.CHAT:
            shown = b'{"content":' + shown + b"}"
        await response.write(self._event(shown, finish, completion_tokens))

    def _event(self, shown: bytes, finish: Finish | None, completion_tokens: int) -> bytes:
        key = b'"text":' if self._generation.kind is Kind.COMPLETION else b'"delta":'
        if finish is None:
            tail = b',"logprobs":null,"finish_reason":null'
        else:
            tail = b',"logprobs":null,"finish_reason":' + encode_json(finish.reason)
        if finish is not None or self._generation.kind is Kind.COMPLETION:
            tail += b',"stop_reason":' + encode_json(None if finish is None else finish.stop_reason)
        usage = b',"usage":' + encode_json(self._usage(completion_tokens)) if self._continuous else b""
        return b'%s{"index":0,%s%s%s}]%s}\n\n' % (self._head, key, shown, tail, usage)

    async def end(self, completion_tokens: int) -> web.StreamResponse:
        """Send the usage where it was asked for, and the end."""
        response = await self._started()
        if self._include_usage:
            usage = encode_json(self._usage(completion_tokens))
            await response.write(self._head + b'],"usage":' + usage + b"}\n\n")
        await response.write(sse.DONE_EVENT)
        await response.write_eof()
        return response

    async def fail(self, event: bytes) -> web.StreamResponse:
        """Send the error as an event, then the end."""
        response = await self._started()
        await response.write(b"data: " + event + b"\n\n" + sse.DONE_EVENT)
        await response.write_eof()
        return response


class WholeAnswer(Answer):
    """One JSON object."""

    def __init__(
        self, request: web.BaseRequest, generation: Generation, metrics: Metrics, prompt_tokens: int
    ) -> None:
        super().__init__(request, generation, metrics, prompt_tokens)
        self._pieces: list[str] = []
        self._finish = Finish(reason="stop")

    async def text(self, text: str, _completion_tokens: int, /, finish: Finish | None = None) -> None:
        """Keep the text."""
        self._pieces.append(text)
        if finish is not None:
            self._finish = finish

    async def end(self, completion_tokens: int) -> web.StreamResponse:
        """Send everything."""
        text = "".join(self._pieces)
        choice: dict[str, Any] = {"index": 0}
        if self._generation.kind is Kind.CHAT:
            choice["message"] = {"role": self._role, "content": text, "refusal": None}
        else:
            choice["text"] = text
        choice |= {
            "logprobs": None,
            "finish_reason": self._finish.reason,
            "stop_reason": self._finish.stop_reason,
        }
        body = {
            "id": self._id,
            "object": "chat.completion" if self._generation.kind is Kind.CHAT else "text_completion",
            "created": self._created,
            "model": self._model,
            "choices": [choice],
            "usage": self._usage(completion_tokens),
        }
        return await self._send(encode_json(body))

    async def fail(self, event: bytes) -> web.StreamResponse:
        """Send the error; a caller does so only where no other answer can be given."""
        return await self._send(event, status=502)

    async def _send(self, body: bytes, *, status: int = 200) -> web.StreamResponse:
        self._begin()
        response = web.Response(
            status=status, body=body, headers=self.headers, content_type="application/json"
        )
        await response.prepare(self._request)
        await response.write_eof()
        return response


def role_of(generation: Generation) -> str:
    """Return the role of a chat's answer, as vLLM chooses it."""
    if generation.kind is Kind.CHAT and generation.body.get("add_generation_prompt") is False:
        return str(generation.body["messages"][-1]["role"])
    return "assistant"


def answer_for(
    request: web.BaseRequest, generation: Generation, metrics: Metrics, prompt_tokens: int
) -> Answer:
    """Return the answer of the form that the client asked for."""
    form = StreamedAnswer if generation.stream else WholeAnswer
    return form(request, generation, metrics, prompt_tokens)
