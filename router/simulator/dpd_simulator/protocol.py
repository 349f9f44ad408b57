"""Requests of vLLM's OpenAI-compatible API: types, defaults and the checks that answer with 400."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from dpd_simulator.sampling import SamplingParameters
from dpd_simulator.tokenizer import Vocabulary

_COMPLETION_MAX_TOKENS = 16


class BadRequestError(Exception):
    """A request that vLLM refuses. Answered with `status` and an error object."""

    def __init__(self, message: str, *, parameter: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.status = status


class StreamOptions(msgspec.Struct, frozen=True):
    """What a stream says besides text."""

    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that completions and chat have in common. Unknown fields are ignored, as in vLLM."""

    model: str | None = None
    n: int | None = 1
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = 0.0
    frequency_penalty: float | None = 0.0
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] = []
    prompt_logprobs: int | None = None
    response_format: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    use_beam_search: bool = False
    truncate_prompt_tokens: int | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    cache_salt: str | None = None
    kv_transfer_params: dict[str, Any] | None = None
    priority: int = 0
    request_id: str | None = None

    def check(self) -> None:
        """Refuse what vLLM refuses before it looks at the prompt.

        Raises:
            BadRequestError: with vLLM's message.
        """
        if self.stream_options is not None and not self.stream:
            raise BadRequestError(
                "Stream options can only be defined when `stream=True`.", parameter="stream_options"
            )
        if self.cache_salt is not None and not self.cache_salt:
            raise BadRequestError(
                "Parameter 'cache_salt' must be a non-empty string if provided.", parameter="cache_salt"
            )
        if self.stream and self.prompt_logprobs is not None and self.prompt_logprobs != 0:
            raise BadRequestError(
                "`prompt_logprobs` are not available when `stream=True`.", parameter="prompt_logprobs"
            )
        if self.use_beam_search:
            raise BadRequestError("beam search is not simulated", status=501)

    @property
    def choices(self) -> int:
        """How many answers are wanted per prompt."""
        return 1 if self.n is None else self.n

    def sampling(
        self, vocabulary: Vocabulary, *, max_tokens: int, logprobs: int | None, prompt_logprobs: int | None
    ) -> SamplingParameters:
        """The parameters of one sequence.

        Raises:
            BadRequestError: a value outside its range.
        """
        stops = [self.stop] if isinstance(self.stop, str) else list(self.stop or ())
        parameters = SamplingParameters(
            max_tokens=max_tokens,
            min_tokens=self.min_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=0 if self.top_k is None else self.top_k,
            min_p=0.0 if self.min_p is None else self.min_p,
            seed=self.seed,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            repetition_penalty=1.0 if self.repetition_penalty is None else self.repetition_penalty,
            stop=tuple(stops),
            stop_token_ids=tuple(self.stop_token_ids or ()),
            include_stop_str_in_output=self.include_stop_str_in_output,
            ignore_eos=self.ignore_eos,
            skip_special_tokens=self.skip_special_tokens,
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
            logit_bias=_logit_bias(self.logit_bias, vocabulary),
            allowed_token_ids=tuple(self.allowed_token_ids or ()),
            bad_words=tuple(_word_ids(word, vocabulary) for word in self.bad_words),
            guide=self._guide(),
        )
        _check_ranges(parameters, choices=self.choices)
        return parameters

    def _guide(self) -> bytes:
        """A digest of the grammar: what a grammar does to the text is not simulated, that it does something is."""
        grammar = {
            "response_format": self.response_format
            if self.response_format and self.response_format.get("type") != "text"
            else None,
            "structured_outputs": self.structured_outputs,
        }
        if not any(grammar.values()):
            return b""
        return hashlib.blake2b(msgspec.json.encode(grammar, order="sorted")).digest()


class CompletionRequest(GenerationRequest, frozen=True, kw_only=True):
    """`POST /v1/completions`."""

    prompt: str | list[int | str | list[int]] | None = None
    prompt_embeds: str | list[str] | None = None
    echo: bool | None = False
    logprobs: int | None = None
    suffix: str | None = None
    add_special_tokens: bool = True

    def check(self) -> None:
        """See `GenerationRequest.check`."""
        GenerationRequest.check(self)
        if self.prompt_embeds is not None:
            raise BadRequestError(
                "prompt embeddings are not enabled on this server", parameter="prompt_embeds"
            )
        if self.prompt is None or self.prompt in ("", []):
            raise BadRequestError(
                "Either prompt or prompt_embeds must be provided and non-empty.", parameter="prompt"
            )
        if self.logprobs is not None and self.logprobs < 0:
            raise BadRequestError("`logprobs` must be a positive value.", parameter="logprobs")

    @property
    def wanted_tokens(self) -> int:
        """`max_tokens` with the default of completions."""
        return _COMPLETION_MAX_TOKENS if self.max_tokens is None else self.max_tokens

    def prompts(self, vocabulary: Vocabulary) -> list[list[int]]:
        """Token ids of every prompt."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [vocabulary.encode(prompt, add_special_tokens=self.add_special_tokens)]
        result: list[list[int]] = []
        flat: list[int] = []
        for part in prompt or ():
            if isinstance(part, int):
                flat.append(part)
            elif isinstance(part, str):
                result.append(vocabulary.encode(part, add_special_tokens=self.add_special_tokens))
            else:
                result.append(list(part))
        return result or [flat]


class ChatRequest(GenerationRequest, frozen=True, kw_only=True):
    """`POST /v1/chat/completions`."""

    messages: list[dict[str, Any]]
    max_completion_tokens: int | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = 0
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    echo: bool = False
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False
    documents: list[dict[str, Any]] | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None

    def check(self) -> None:
        """See `GenerationRequest.check`."""
        GenerationRequest.check(self)
        if self.top_logprobs and not self.logprobs:
            raise BadRequestError(
                "when using `top_logprobs`, `logprobs` must be set to true.", parameter="top_logprobs"
            )
        if self.continue_final_message and self.add_generation_prompt:
            raise BadRequestError(
                "Cannot set both `continue_final_message` and `add_generation_prompt` to True."
            )
        if self.chat_template is not None:
            raise BadRequestError(
                "Chat template is passed with request, but --trust-request-chat-template is not set."
            )

    def check_tools(self, *, automatic: bool) -> None:
        """Refuse tools that the server was not started for.

        Raises:
            BadRequestError: `tool_choice` is auto and the server has no tool parser.
        """
        if self.tools and self.tool_choice in (None, "auto") and not automatic:
            raise BadRequestError(
                '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            )

    @property
    def wanted_tokens(self) -> int | None:
        """The newer field wins; None means as many as fit."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def forced_tool(self) -> str | None:
        """Name of the function that the answer must call."""
        if isinstance(self.tool_choice, Mapping):
            return str(self.tool_choice.get("function", {}).get("name"))
        if self.tool_choice == "required" and self.tools:
            return str(self.tools[0].get("function", {}).get("name"))
        return None

    def prompt_text(self, vocabulary: Vocabulary) -> str:
        """The rendered chat.

        Raises:
            BadRequestError: messages that cannot be rendered.
        """
        return render_chat(self, vocabulary)


class TokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /tokenize`, with a prompt or with messages."""

    model: str | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = False
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    documents: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None

    def ids(self, vocabulary: Vocabulary) -> list[int]:
        """Token ids of the prompt or of the rendered chat.

        Raises:
            BadRequestError: neither is given, or the messages cannot be rendered.
        """
        if self.messages is not None:
            text = render_chat(self, vocabulary)
            return vocabulary.encode(text, add_special_tokens=bool(self.add_special_tokens))
        if self.prompt is None:
            raise BadRequestError("Field required", parameter="prompt")
        return vocabulary.encode(self.prompt, add_special_tokens=self.add_special_tokens is not False)


class DetokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /detokenize`."""

    tokens: list[int]
    model: str | None = None


def render_chat(request: ChatRequest | TokenizeRequest, vocabulary: Vocabulary) -> str:
    """The prompt text of a chat; `/tokenize` and the chat endpoint render alike.

    Raises:
        BadRequestError: messages that cannot be rendered.
    """
    kwargs = dict(request.chat_template_kwargs or {})
    # `/tokenize` of vLLM knows neither documents nor the reasoning effort, so chats with them render otherwise there.
    if isinstance(request, ChatRequest):
        if request.documents is not None:
            kwargs["documents"] = request.documents
        if request.reasoning_effort is not None:
            kwargs["reasoning_effort"] = request.reasoning_effort
    try:
        return vocabulary.render_chat(
            request.messages or [],
            tools=request.tools,
            add_generation_prompt=request.add_generation_prompt,
            continue_final_message=request.continue_final_message,
            template_kwargs=kwargs or None,
        )
    except ValueError as error:
        raise BadRequestError(str(error), parameter="messages") from error


def _logit_bias(bias: Mapping[str, float] | None, vocabulary: Vocabulary) -> dict[int, float]:
    result = {}
    for token, value in (bias or {}).items():
        if not token.isdigit() or int(token) >= vocabulary.size:
            raise BadRequestError(f"Invalid key in logit_bias: {token}", parameter="logit_bias")
        result[int(token)] = min(100.0, max(-100.0, value))
    return result


def _word_ids(word: str, vocabulary: Vocabulary) -> tuple[int, ...]:
    if not word:
        raise BadRequestError("bad_words cannot contain an empty string.")
    return tuple(vocabulary.encode(word, add_special_tokens=False))


def _check_ranges(parameters: SamplingParameters, *, choices: int) -> None:
    checks = (
        (choices >= 1, f"n must be at least 1, got {choices}."),
        (
            -2 <= parameters.presence_penalty <= 2,
            f"presence_penalty must be in [-2, 2], got {parameters.presence_penalty}.",
        ),
        (
            -2 <= parameters.frequency_penalty <= 2,
            f"frequency_penalty must be in [-2, 2], got {parameters.frequency_penalty}.",
        ),
        (
            parameters.repetition_penalty > 0,
            f"repetition_penalty must be greater than zero, got {parameters.repetition_penalty}.",
        ),
        (0 <= parameters.temperature <= 2, f"temperature must be in [0, 2], got {parameters.temperature}."),
        (0 < parameters.top_p <= 1, f"top_p must be in (0, 1], got {parameters.top_p}."),
        (parameters.top_k >= -1, f"top_k must be 0 (disable), or at least 1, got {parameters.top_k}."),
        (0 <= parameters.min_p <= 1, f"min_p must be in [0, 1], got {parameters.min_p}."),
        (parameters.max_tokens >= 1, f"max_tokens must be at least 1, got {parameters.max_tokens}."),
        (
            0 <= parameters.min_tokens <= parameters.max_tokens,
            f"min_tokens must be in [0, max_tokens={parameters.max_tokens}], got {parameters.min_tokens}.",
        ),
        (all(parameters.stop), "stop cannot contain an empty string."),
        (choices == 1 or not parameters.greedy, f"n must be 1 when using greedy sampling, got {choices}."),
    )
    for holds, message in checks:
        if not holds:
            raise BadRequestError(message)
