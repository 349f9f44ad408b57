"""From a parsed request to the bytes of its answer."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from dpd_simulator import answers
from dpd_simulator.config import EngineConfig
from dpd_simulator.engine import Engine
from dpd_simulator.model import ModelState
from dpd_simulator.protocol import BadRequestError, ChatRequest, CompletionRequest, GenerationRequest
from dpd_simulator.sampling import SampledToken, SamplingParameters, top_logprobs
from dpd_simulator.sequence import EngineSequence, GenerationError, Output, SequenceRequest
from dpd_simulator.tokenizer import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt of a request, ready for the engine.

    Attributes:
        ids: its tokens.
        parameters: how to sample.
        logprobs: log probabilities of its own tokens, where the request wants them; the first has none.
    """

    ids: tuple[int, ...]
    parameters: SamplingParameters
    logprobs: tuple[SampledToken, ...] | None


class Generation:
    """One request in the engine: its sequences, and their outputs as they come."""

    def __init__(
        self, *, engine: Engine, request: GenerationRequest, prompts: Sequence[Prompt], answer_id: str
    ) -> None:
        self.prompts = prompts
        self._engine = engine
        self._choices = request.choices
        self._sequences: list[EngineSequence] = []
        for prompt_index, prompt in enumerate(prompts):
            for choice in range(request.choices):
                self._sequences.append(
                    engine.submit(
                        SequenceRequest(
                            request_id=f"{answer_id}-{prompt_index}-{choice}",
                            prompt_ids=prompt.ids,
                            parameters=_child(prompt.parameters, choice),
                            cache_salt=request.cache_salt,
                            kv_transfer_params=request.kv_transfer_params,
                            index=choice,
                        )
                    )
                )

    def prompt_of(self, index: int) -> Prompt:
        """The prompt that an answer belongs to."""
        return self.prompts[index // self._choices]

    def usage(self, config: EngineConfig, completion_tokens: int) -> answers.Usage:
        """Tokens of the whole request."""
        return answers.Usage(
            prompt_tokens=sum(len(prompt.ids) for prompt in self.prompts),
            completion_tokens=completion_tokens,
            cached_tokens=self._sequences[0].cached_tokens if config.prompt_tokens_details else None,
        )

    async def outputs(self) -> AsyncIterator[tuple[int, Output]]:
        """Outputs of all sequences as they come, each with the index of its choice.

        Raises:
            GenerationError: a sequence failed.
        """
        if len(self._sequences) == 1:
            async for output in _outputs(self._sequences[0]):
                yield 0, output
            return
        queue: asyncio.Queue[tuple[int, Output | GenerationError | None]] = asyncio.Queue()
        tasks = [asyncio.create_task(_forward(*pair, queue)) for pair in enumerate(self._sequences)]
        left = len(tasks)
        try:
            while left:
                index, item = await queue.get()
                if isinstance(item, GenerationError):
                    raise item
                if item is None:
                    left -= 1
                    continue
                yield index, item
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def whole(self) -> list[Output]:
        """The complete output of every sequence.

        Raises:
            GenerationError: a sequence failed.
        """
        results = [Output() for _ in self._sequences]
        async for index, output in self.outputs():
            whole = results[index]
            whole.text += output.text
            whole.tokens += output.tokens
            whole.finish_reason, whole.stop_reason = output.finish_reason, output.stop_reason
            whole.kv_transfer_params = output.kv_transfer_params
        return results

    def close(self) -> None:
        """Nobody waits any more: forget what is not finished."""
        for sequence in self._sequences:
            self._engine.abort(sequence)


async def _outputs(sequence: EngineSequence) -> AsyncIterator[Output]:
    while True:
        output = await sequence.next_output()
        yield output
        if output.finish_reason is not None:
            return


async def _forward(
    index: int, sequence: EngineSequence, queue: "asyncio.Queue[tuple[int, Output | GenerationError | None]]"
) -> None:
    try:
        async for output in _outputs(sequence):
            queue.put_nowait((index, output))
        queue.put_nowait((index, None))
    except GenerationError as error:
        queue.put_nowait((index, error))


def _child(parameters: SamplingParameters, choice: int) -> SamplingParameters:
    """Every choice of a seeded request has a seed of its own."""
    if parameters.seed is None or not choice:
        return parameters
    values = {name: getattr(parameters, name) for name in parameters.__dataclass_fields__}
    return SamplingParameters(**values | {"seed": parameters.seed + choice})


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparer:
    """Checks requests against the engine's limits and makes prompts of them."""

    config: EngineConfig
    vocabulary: Vocabulary

    def check_model(self, model: str | None) -> None:
        """Refuse a model that is not served.

        Raises:
            BadRequestError: with status 404.
        """
        if model and model not in self.config.served_model_names:
            raise BadRequestError(f"The model `{model}` does not exist.", parameter="model", status=404)

    def completion(self, request: CompletionRequest) -> list[Prompt]:
        """Prompts of a completion request.

        Raises:
            BadRequestError: the request is refused.
        """
        request.check()
        self.check_model(request.model)
        only_echo = bool(request.echo) and request.wanted_tokens == 0
        prompt_logprobs = request.prompt_logprobs
        if prompt_logprobs is None and request.echo:
            prompt_logprobs = request.logprobs
        return [
            self._prompt(
                request,
                ids,
                wanted_tokens=1 if only_echo else request.wanted_tokens,
                logprobs=request.logprobs,
                prompt_logprobs=prompt_logprobs,
            )
            for ids in request.prompts(self.vocabulary)
        ]

    def chat(self, request: ChatRequest) -> list[Prompt]:
        """The prompt of a chat request.

        Raises:
            BadRequestError: the request is refused.
        """
        request.check()
        self.check_model(request.model)
        request.check_tools(automatic=self.config.automatic_tool_choice)
        text = request.prompt_text(self.vocabulary)
        ids = self.vocabulary.encode(text, add_special_tokens=request.add_special_tokens)
        return [
            self._prompt(
                request,
                ids,
                wanted_tokens=request.wanted_tokens,
                logprobs=(request.top_logprobs or 0) if request.logprobs else None,
                prompt_logprobs=request.prompt_logprobs,
            )
        ]

    def _prompt(
        self,
        request: GenerationRequest,
        ids: list[int],
        *,
        wanted_tokens: int | None,
        logprobs: int | None,
        prompt_logprobs: int | None,
    ) -> Prompt:
        limit = self.config.max_model_len
        if request.truncate_prompt_tokens is not None and request.truncate_prompt_tokens >= 0:
            ids = ids[-request.truncate_prompt_tokens :]
        if any(not 0 <= token_id < self.vocabulary.size for token_id in ids):
            raise BadRequestError(f"Token id {max(ids)} is out of vocabulary")
        if wanted_tokens is not None and wanted_tokens > limit:
            raise BadRequestError(
                f"max_tokens={wanted_tokens} cannot be greater than max_model_len={limit}. "
                "Please request fewer output tokens.",
                parameter="max_tokens",
            )
        if len(ids) + max(1, wanted_tokens or 0) > limit:
            raise BadRequestError(
                f"This model's maximum context length is {limit} tokens. However, you requested "
                f"{wanted_tokens or 0} output tokens and your prompt contains {len(ids)} input tokens, for a total "
                f"of {len(ids) + (wanted_tokens or 0)} tokens. Please reduce the length of the input prompt or the "
                "number of requested output tokens.",
                parameter="input_tokens",
            )
        parameters = request.sampling(
            self.vocabulary,
            max_tokens=limit - len(ids) if wanted_tokens is None else wanted_tokens,
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
        )
        return Prompt(ids=tuple(ids), parameters=parameters, logprobs=self._prompt_logprobs(ids, parameters))

    def _prompt_logprobs(
        self, ids: list[int], parameters: SamplingParameters
    ) -> tuple[SampledToken, ...] | None:
        if parameters.prompt_logprobs is None:
            return None
        tokens = [SampledToken(token_id=ids[0])]
        state = ModelState(self.vocabulary, ids[:1], guide=parameters.guide)
        for token_id in ids[1:]:
            logprobs = top_logprobs(state.scores(), token_id, parameters.prompt_logprobs)
            tokens.append(SampledToken(token_id=token_id, logprobs=logprobs))
            state.append(token_id)
        return tuple(tokens)


def answer_head(
    config: EngineConfig, request: GenerationRequest, *, prefix: str, request_id: str | None
) -> answers.Head:
    """Identity of an answer; the client's request id becomes part of it."""
    chosen = request_id or request.request_id or uuid.uuid4().hex
    return answers.Head(
        answer_id=f"{prefix}-{chosen}", created=int(time.time()), model=config.served_model_names[0]
    )


def prompt_logprobs_body(prompt: Prompt, vocabulary: Vocabulary) -> list[Any] | None:
    """`prompt_logprobs` of an answer."""
    if prompt.logprobs is None:
        return None
    return [
        None
        if token.logprobs is None
        else {
            str(token_id): {"logprob": value, "rank": rank, "decoded_token": vocabulary.token_text(token_id)}
            for rank, (token_id, value) in enumerate(token.logprobs, 1)
        }
        for token in prompt.logprobs
    ]


class CompletionAnswer:
    """Answers of `/v1/completions`."""

    def __init__(
        self, *, config: EngineConfig, vocabulary: Vocabulary, request: CompletionRequest, head: answers.Head
    ) -> None:
        self._config = config
        self._vocabulary = vocabulary
        self._request = request
        self._head = head
        self._texts = answers.TokenTexts(vocabulary, request)

    async def whole(self, generation: Generation) -> dict[str, Any]:
        """The answer of a request that does not stream."""
        outputs = await generation.whole()
        choices = []
        for index, output in enumerate(outputs):
            prompt = generation.prompt_of(index)
            text, tokens = self._echoed(prompt, output)
            choices.append(
                answers.completion_choice(
                    request=self._request,
                    index=index,
                    output=output,
                    text=text,
                    logprobs=self._logprobs(tokens, offset=0),
                    prompt_ids=prompt.ids,
                    prompt_logprobs=prompt_logprobs_body(prompt, self._vocabulary),
                )
            )
        completion_tokens = sum(len(output.tokens) for output in outputs)
        return answers.completion(
            self._head,
            choices=choices,
            usage=generation.usage(self._config, completion_tokens),
            kv_transfer_params=outputs[0].kv_transfer_params,
        )

    async def stream(self, generation: Generation) -> AsyncIterator[bytes]:
        """Events of a request that streams, without the final one."""
        request = self._request
        options = _StreamUsage(request)
        texts: dict[int, int] = {}
        tokens: dict[int, int] = {}
        async for index, output in generation.outputs():
            prompt = generation.prompt_of(index)
            first = index not in tokens
            text, shown = self._echoed(prompt, output) if first else (output.text, output.tokens)
            body = answers.completion_chunk(
                self._head,
                request=request,
                index=index,
                output=output,
                text=text,
                logprobs=self._logprobs(shown, offset=texts.get(index, 0)),
                prompt_ids=prompt.ids if first and (request.return_token_ids or request.echo) else None,
            )
            texts[index] = texts.get(index, 0) + len(output.text)
            tokens[index] = tokens.get(index, 0) + len(output.tokens)
            options.complete(body, output, prompt_tokens=len(prompt.ids), completion_tokens=tokens[index])
            yield answers.event(body)
        if options.at_end:
            usage = generation.usage(self._config, sum(tokens.values()))
            yield answers.event(answers.usage_chunk(self._head, kind="text_completion", usage=usage))

    def _echoed(self, prompt: Prompt, output: Output) -> tuple[str, Sequence[SampledToken]]:
        if not self._request.echo:
            return output.text, output.tokens
        text = "" if self._request.return_token_ids else self._vocabulary.decode(prompt.ids)
        shown = prompt.logprobs or tuple(SampledToken(token_id=token_id) for token_id in prompt.ids)
        if self._request.wanted_tokens == 0:
            return text, shown
        return text + output.text, (*shown, *output.tokens)

    def _logprobs(self, tokens: Sequence[SampledToken], *, offset: int) -> dict[str, Any] | None:
        return None if self._request.logprobs is None else self._texts.completion(tokens, offset=offset)


class ChatAnswer:
    """Answers of `/v1/chat/completions`."""

    def __init__(
        self, *, config: EngineConfig, vocabulary: Vocabulary, request: ChatRequest, head: answers.Head
    ) -> None:
        self._config = config
        self._vocabulary = vocabulary
        self._request = request
        self._head = head
        self._texts = answers.TokenTexts(vocabulary, request)
        self._tool = request.forced_tool

    @property
    def _role(self) -> str:
        return "assistant" if self._request.add_generation_prompt else str(self._request.messages[-1]["role"])

    async def whole(self, generation: Generation) -> dict[str, Any]:
        """The answer of a request that does not stream."""
        outputs = await generation.whole()
        prompt = generation.prompts[0]
        choices = [self._choice(index, output) for index, output in enumerate(outputs)]
        return answers.chat(
            self._head,
            choices=choices,
            usage=generation.usage(self._config, sum(len(output.tokens) for output in outputs)),
            prompt_ids=prompt.ids if self._request.return_token_ids else None,
            prompt_logprobs=prompt_logprobs_body(prompt, self._vocabulary),
            kv_transfer_params=outputs[0].kv_transfer_params,
        )

    def _choice(self, index: int, output: Output) -> dict[str, Any]:
        calls = [] if self._tool is None else [answers.tool_call(self._tool, output.text)]
        content = self._echo() + ("" if calls else output.text)
        return answers.chat_choice(
            request=self._request,
            index=index,
            output=self._with_tool_reason(output),
            message=answers.chat_message(role=self._role, content=content, tool_calls=calls),
            logprobs=self._logprobs(output.tokens),
        )

    async def stream(self, generation: Generation) -> AsyncIterator[bytes]:
        """Events of a request that streams, without the final one."""
        options = _StreamUsage(self._request)
        prompt = generation.prompts[0]
        tokens: dict[int, int] = {}
        async for index, output in generation.outputs():
            if not tokens:
                for body in self._first_chunks(prompt):
                    options.complete(body, None, prompt_tokens=len(prompt.ids), completion_tokens=0)
                    yield answers.event(body)
            first = index not in tokens
            tokens[index] = tokens.get(index, 0) + len(output.tokens)
            body = answers.chat_chunk(
                self._head,
                request=self._request,
                index=index,
                output=self._with_tool_reason(output),
                delta=self._delta(output.text, first=first),
                logprobs=self._logprobs(output.tokens),
            )
            options.complete(body, output, prompt_tokens=len(prompt.ids), completion_tokens=tokens[index])
            yield answers.event(body)
        if options.at_end:
            usage = generation.usage(self._config, sum(tokens.values()))
            yield answers.event(answers.usage_chunk(self._head, kind="chat.completion.chunk", usage=usage))

    def _first_chunks(self, prompt: Prompt) -> list[dict[str, Any]]:
        ids = prompt.ids if self._request.return_token_ids else None
        chunks = [
            answers.chat_first_chunk(self._head, index=index, role=self._role, prompt_ids=ids)
            for index in range(self._request.choices)
        ]
        if echoed := self._echo():
            choice = {"delta": {"content": echoed}, "logprobs": None, "finish_reason": None}
            chunks += [
                self._head.body("chat.completion.chunk") | {"choices": [{"index": index} | choice]}
                for index in range(self._request.choices)
            ]
        return chunks

    def _delta(self, text: str, *, first: bool) -> dict[str, Any]:
        if self._tool is None:
            return {"content": text}
        call = answers.tool_call(self._tool, text) if first else {"function": {"arguments": text}}
        return {"tool_calls": [{"index": 0} | call]}

    def _echo(self) -> str:
        last = self._request.messages[-1]
        content = last.get("content")
        wanted = self._request.echo and last.get("role") == self._role
        return content if wanted and isinstance(content, str) else ""

    def _with_tool_reason(self, output: Output) -> Output:
        if self._tool is None or self._request.tool_choice != "required" or output.finish_reason != "stop":
            return output
        return Output(
            text=output.text, tokens=output.tokens, finish_reason="tool_calls", stop_reason=output.stop_reason
        )

    def _logprobs(self, tokens: Sequence[SampledToken]) -> dict[str, Any] | None:
        if not self._request.logprobs:
            return None
        return self._texts.chat(tokens, best=self._request.top_logprobs or 0)


class _StreamUsage:
    """What `stream_options` adds to chunks, and the fingerprint of the last one."""

    def __init__(self, request: GenerationRequest) -> None:
        options = request.stream_options
        self.at_end = bool(options and options.include_usage)
        self._continuous = bool(options and options.include_usage and options.continuous_usage_stats)

    def complete(
        self, body: dict[str, Any], output: Output | None, *, prompt_tokens: int, completion_tokens: int
    ) -> None:
        if self._continuous:
            usage = answers.Usage(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
            body["usage"] = usage.body(with_nulls=False)
        if not self.at_end and output is not None and output.finish_reason is not None:
            body["system_fingerprint"] = answers.FINGERPRINT
