"""Which requests a transfer can hand over with vLLM's exact semantics.

`continue` goes on from prompt ids plus one generated token. Whatever starts to count at the first
output token would be one token late there, so such a request is decoded directly. `land` and `nixl`
send the client's request unchanged to the decoder and take nearly everything. A field that is not
known here is decoded directly too: correct first.
"""

import dataclasses
import enum
from typing import Any, Final

from dpd_router.config import Routing, Strategy, Transfer
from dpd_router.generation import Generation, Json, Kind


class Reason(enum.StrEnum):
    """Why a request took its path; the label of the metric."""

    # disaggregated
    THRESHOLD = "threshold"
    # direct, before anything is known about workers
    THRESHOLD_NEVER = "threshold_never"
    BELOW_THRESHOLD = "below_threshold"
    SHORTER_THAN_CHUNK = "shorter_than_chunk"
    EXCEEDS_CONTEXT = "exceeds_context"
    EXCEEDS_BUFFER = "exceeds_buffer"
    CONTEXT_UNKNOWN = "context_unknown"
    PROMPT_LIST = "prompt_list"
    PROMPT_EMBEDS = "prompt_embeds"
    SINGLE_TOKEN = "single_token"  # noqa: S105 -- a token of text
    TOOLS = "tools"
    STRUCTURED_OUTPUT = "structured_output"
    PARSED_CHAT = "parsed_chat"
    REASONING = "reasoning"
    LOGPROBS = "logprobs"
    PROMPT_LOGPROBS = "prompt_logprobs"
    ECHO = "echo"
    SEVERAL_CHOICES = "several_choices"
    BEAM_SEARCH = "beam_search"
    PENALTIES = "penalties"
    BAD_WORDS = "bad_words"
    REPETITION_DETECTION = "repetition_detection"
    SEED = "seed"
    MULTIMODAL = "multimodal"
    TRUNCATION = "truncation"
    TOKEN_IDS_WANTED = "token_ids_wanted"  # noqa: S105 -- tokens of text
    CHAT_RENDERING = "chat_rendering"
    INVALID_FIELD = "invalid_field"
    UNKNOWN_FIELD = "unknown_field"
    # direct, because of the workers
    MODEL_NOT_ON_BOTH_ROLES = "model_not_on_both_roles"
    OTHER_ROUTER = "other_router"
    NO_DECODER = "no_decoder"
    NO_PREFILLER = "no_prefiller"
    NO_BUFFER_ROOM = "no_buffer_room"
    PAIR_BROKEN = "pair_broken"
    BUFFER_LEAKED = "buffer_leaked"
    TOKENIZE_REJECTED = "tokenize_rejected"
    TOKENIZE_FAILED = "tokenize_failed"
    # fallback, because a hand-off failed
    PREFILL_UNREACHABLE = "prefill_unreachable"
    PREFILL_REJECTED = "prefill_rejected"
    PREFILL_FAILED = "prefill_failed"
    PREFILL_TIMEOUT = "prefill_timeout"
    PREFILL_MALFORMED = "prefill_malformed"
    FIRST_TOKEN_TEXT_UNKNOWN = "first_token_text_unknown"  # noqa: S105 -- a token of text
    NOTIFICATION_TIMEOUT = "notification_timeout"
    DECODER_GONE = "decoder_gone"
    DECODE_FAILED = "decode_failed"
    LANDING_FAILED = "landing_failed"
    REMOTE_BLOCKS_MISSING = "remote_blocks_missing"


_SAMPLING: Final = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",  # counts the prompt too, to which the first token then belongs
        "stop",
        "stop_token_ids",
        "include_stop_str_in_output",
        "ignore_eos",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "logit_bias",
        "allowed_token_ids",
        "priority",
        "user",
    }
)
# what `continue` copies into its own requests; `min_tokens`, `max_tokens` and `seed` are set apart
COPIED_FIELDS: Final = _SAMPLING | {"model", "seed", "cache_salt"}
_HANDLED: Final = COPIED_FIELDS | {
    "min_tokens",
    "max_tokens",
    "stream",
    "stream_options",
    "add_special_tokens",
}
_HANDLED_OF: Final = {
    Kind.COMPLETION: _HANDLED | {"prompt"},
    Kind.CHAT: _HANDLED
    | {
        "messages",
        "max_completion_tokens",
        "add_generation_prompt",
        "continue_final_message",
        "chat_template",
        "chat_template_kwargs",
    },
}
# OpenAI fields that vLLM does not read
_IGNORED_BY_WORKERS: Final = frozenset(
    {"metadata", "store", "service_tier", "prompt_cache_key", "safety_identifier", "verbosity"}
)
# fields that change nothing at these values
_NEUTRAL: Final[dict[str, tuple[Any, ...]]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "top_logprobs": (0,),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "length_penalty": (1, 1.0),
    "use_beam_search": (False,),
    "bad_words": ([],),
    "include_reasoning": (True,),
    "return_token_ids": (False,),
    "return_token_offsets": (False,),
    "return_prompt_text": (False,),
    "return_assistant_tokens_mask": (False,),
    "return_tokens_as_token_ids": (False, True),  # only about logprobs, which are decoded directly
    "response_format": ({"type": "text"},),
    "tool_choice": ("none",),
    "parallel_tool_calls": (False, True),  # only about tools, which are decoded directly
    "suffix": ("",),
}
_OBSTACLES: Final = {
    "n": Reason.SEVERAL_CHOICES,
    "best_of": Reason.SEVERAL_CHOICES,
    "echo": Reason.ECHO,
    "logprobs": Reason.LOGPROBS,
    "top_logprobs": Reason.LOGPROBS,
    "prompt_logprobs": Reason.PROMPT_LOGPROBS,
    "presence_penalty": Reason.PENALTIES,
    "frequency_penalty": Reason.PENALTIES,
    "use_beam_search": Reason.BEAM_SEARCH,
    "bad_words": Reason.BAD_WORDS,
    "repetition_detection": Reason.REPETITION_DETECTION,
    "reasoning_effort": Reason.REASONING,
    "include_reasoning": Reason.REASONING,
    "thinking_token_budget": Reason.REASONING,
    "return_token_ids": Reason.TOKEN_IDS_WANTED,
    "response_format": Reason.STRUCTURED_OUTPUT,
    "structured_outputs": Reason.STRUCTURED_OUTPUT,
    "guided_json": Reason.STRUCTURED_OUTPUT,
    "guided_regex": Reason.STRUCTURED_OUTPUT,
    "guided_choice": Reason.STRUCTURED_OUTPUT,
    "guided_grammar": Reason.STRUCTURED_OUTPUT,
    "tools": Reason.TOOLS,
    "tool_choice": Reason.TOOLS,
    "functions": Reason.TOOLS,
    "function_call": Reason.TOOLS,
    "prompt_embeds": Reason.PROMPT_EMBEDS,
    "truncate_prompt_tokens": Reason.TRUNCATION,
    "truncation_side": Reason.TRUNCATION,
    "documents": Reason.CHAT_RENDERING,
    "mm_processor_kwargs": Reason.MULTIMODAL,
    "media_io_kwargs": Reason.MULTIMODAL,
    "modalities": Reason.MULTIMODAL,
    "audio": Reason.MULTIMODAL,
}
# what a request that reaches the decoder unchanged must not have, with any transfer
_ALWAYS_DIRECT: Final = frozenset(
    {Reason.BEAM_SEARCH, Reason.SEVERAL_CHOICES, Reason.PROMPT_EMBEDS, Reason.ECHO, Reason.PROMPT_LOGPROBS}
)
# `land` prefills ids that `/tokenize` rendered; these change what the decoder would render
_NOT_FOR_LAND: Final = _ALWAYS_DIRECT | {Reason.TRUNCATION, Reason.CHAT_RENDERING, Reason.MULTIMODAL}
_RENDERED_BY_VALUE: Final = frozenset({"reasoning_effort"})

_STREAM_OPTIONS: Final = ("include_usage", "continuous_usage_stats")
_MESSAGE_FIELDS: Final = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
# vLLM treats a temperature below this as greedy
_GREEDY_BELOW: Final = 1e-5
DEFAULT_COMPLETION_TOKENS: Final = 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a client wants.

    Attributes:
        max_tokens: output tokens at most; None is as many as fit.
        min_tokens: output tokens at least.
    """

    max_tokens: int | None
    min_tokens: int


def limits_of(generation: Generation) -> Limits | None:
    """Return the limits, or None where they are not what a worker accepts."""
    body = generation.body
    max_tokens = body.get("max_tokens")
    if generation.kind is Kind.CHAT:
        preferred = body.get("max_completion_tokens")
        max_tokens = max_tokens if preferred is None else preferred
    elif max_tokens is None:
        max_tokens = DEFAULT_COMPLETION_TOKENS
    min_tokens = body.get("min_tokens", 0)
    min_tokens = 0 if min_tokens is None else min_tokens
    if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
        return None
    if type(min_tokens) is not int or min_tokens < 0 or (max_tokens is not None and min_tokens > max_tokens):
        return None
    return Limits(max_tokens=max_tokens, min_tokens=min_tokens)


def obstacle(generation: Generation, routing: Routing) -> Reason | None:
    """Return why the configured transfer cannot take a request, or None."""
    limits = limits_of(generation)
    if limits is None:
        return Reason.INVALID_FIELD
    if limits.max_tokens == 1:
        return Reason.SINGLE_TOKEN
    if generation.kind is Kind.COMPLETION:
        reason = _prompt_obstacle(generation.body)
    else:
        reason = _messages_obstacle(generation.body, any_content=routing.transfer is Transfer.NIXL)
    return reason or _transfer_obstacle(generation, routing)


def _transfer_obstacle(generation: Generation, routing: Routing) -> Reason | None:
    if routing.transfer is Transfer.NIXL:
        return _unchanged_obstacle(generation.body, _ALWAYS_DIRECT)
    if routing.strategy is Strategy.LAND:
        return _unchanged_obstacle(generation.body, _NOT_FOR_LAND)
    return _continuation_obstacle(generation, routing)


def _prompt_obstacle(body: Json) -> Reason | None:
    prompt = body.get("prompt")
    if body.get("prompt_embeds") is not None:
        return Reason.PROMPT_EMBEDS
    if not isinstance(prompt, (str, list)) or not prompt:
        return Reason.INVALID_FIELD
    if isinstance(prompt, str) or all(type(token) is int and token >= 0 for token in prompt):
        return None
    several = all(isinstance(item, (str, list)) for item in prompt)
    return Reason.PROMPT_LIST if several else Reason.INVALID_FIELD


def _messages_obstacle(body: Json, *, any_content: bool) -> Reason | None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return Reason.INVALID_FIELD
    reasons = (_message_obstacle(message, any_content=any_content) for message in messages)
    return next((reason for reason in reasons if reason is not None), None)


def _message_obstacle(message: Any, *, any_content: bool) -> Reason | None:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return Reason.INVALID_FIELD
    if any_content:
        return None
    if not message.keys() <= _MESSAGE_FIELDS:
        return Reason.CHAT_RENDERING
    content = message.get("content")
    if content is None or isinstance(content, str):
        return None
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        return Reason.INVALID_FIELD
    texts = all(part.get("type") == "text" and isinstance(part.get("text"), str) for part in content)
    return None if texts else Reason.MULTIMODAL


def _neutral(name: str, value: Any) -> bool:
    if value is None or value in _NEUTRAL.get(name, ()):
        return True
    return name == "logprobs" and value is False


def _unchanged_obstacle(body: Json, never: frozenset[Reason]) -> Reason | None:
    if not _salt_valid(body.get("cache_salt")) or not _streaming_valid(body):
        return Reason.INVALID_FIELD
    for name, value in body.items():
        reason = None if _neutral(name, value) else _OBSTACLES.get(name)
        if reason in never:
            return reason
        if name in _RENDERED_BY_VALUE and value is not None and Reason.CHAT_RENDERING in never:
            return Reason.CHAT_RENDERING
    return None


def _continuation_obstacle(generation: Generation, routing: Routing) -> Reason | None:
    body = generation.body
    if generation.kind is Kind.CHAT and routing.workers_parse_chat:
        return Reason.PARSED_CHAT
    handled = _HANDLED_OF[generation.kind] | _IGNORED_BY_WORKERS
    for name, value in body.items():
        if name not in handled and (reason := _foreign_field(name, value)) is not None:
            return reason
    return _seed_obstacle(body, routing) if _handled_fields_valid(generation) else Reason.INVALID_FIELD


def _foreign_field(name: str, value: Any) -> Reason | None:
    """Return why a field that the router does not copy stands in the way, unless it changes nothing."""
    return None if _neutral(name, value) else _OBSTACLES.get(name, Reason.UNKNOWN_FIELD)


def _handled_fields_valid(generation: Generation) -> bool:
    """Whether the fields that the router itself reads have the types that a worker accepts."""
    body = generation.body
    return (
        _stops_valid(body.get("stop"))
        and _streaming_valid(body)
        and _salt_valid(body.get("cache_salt"))
        # both together are an error, and the second is true unless it is said to be false
        and not (body.get("continue_final_message") and body.get("add_generation_prompt") is not False)
    )


def _streaming_valid(body: Json) -> bool:
    """Whether a worker cannot read something else than the router in how an answer is to be streamed.

    A worker takes `"yes"` and 1 for true where its parser is lenient, and refuses them where it is strict.
    """
    stream, options = body.get("stream"), body.get("stream_options")
    if not _is_flag(stream):
        return False
    if options is None:
        return True
    named = isinstance(options, dict) and all(_is_flag(options.get(name)) for name in _STREAM_OPTIONS)
    return named and stream is True


def _is_flag(value: Any) -> bool:
    return value is None or type(value) is bool


def _salt_valid(salt: Any) -> bool:
    return salt is None or (isinstance(salt, str) and bool(salt))


def _stops_valid(stop: Any) -> bool:
    if stop is None:
        return True
    stops = [stop] if isinstance(stop, str) else stop
    return isinstance(stops, list) and all(isinstance(text, str) and text for text in stops)


def _seed_obstacle(body: Json, routing: Routing) -> Reason | None:
    if body.get("seed") is None or routing.continue_seeded:
        return None
    temperature = body.get("temperature")
    # without a temperature the worker's own default decides, which is above 0
    greedy = isinstance(temperature, (int, float)) and temperature < _GREEDY_BELOW
    return None if greedy else Reason.SEED
