"""Which requests each transfer takes, and the reason of every one that it does not."""

from typing import Any

import pytest

from dpd_router.config import Routing, Strategy, Transfer
from dpd_router.eligibility import Reason, limits_of, obstacle
from dpd_router.errors import ClientError
from dpd_router.generation import INTERNAL_FIELDS, Generation, Kind, parse_body

CONTINUE = Routing(strategy=Strategy.CONTINUE)
LAND = Routing(strategy=Strategy.LAND)
NIXL = Routing(transfer=Transfer.NIXL)


_TEXT = {"type": "text", "text": "a"}


def completion(**fields: Any) -> Generation:
    body = {"model": "m", "prompt": "ba", **fields}
    return Generation(kind=Kind.COMPLETION, request_id="r", body=body, raw=b"", headers={})


def chat(**fields: Any) -> Generation:
    body = {"model": "m", "messages": [{"role": "user", "content": "ba"}], **fields}
    return Generation(kind=Kind.CHAT, request_id="r", body=body, raw=b"", headers={})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"prompt": [0, 2, 3]}, None),
        ({"temperature": 0, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "repetition_penalty": 1.2}, None),
        (
            {
                "stop": ["a", "b"],
                "stop_token_ids": [1],
                "include_stop_str_in_output": True,
                "ignore_eos": True,
            },
            None,
        ),
        ({"stop": None, "seed": None, "logprobs": None, "n": 1, "best_of": 1, "echo": False}, None),
        ({"presence_penalty": 0, "frequency_penalty": 0.0, "use_beam_search": False, "suffix": ""}, None),
        ({"metadata": {"a": "b"}, "store": True, "service_tier": "auto", "user": "u"}, None),
        ({"stream": True, "stream_options": {"include_usage": True}}, None),
        ({"cache_salt": "s"}, None),
        ({"seed": 1, "temperature": 0}, None),
        ({"max_tokens": 1}, Reason.SINGLE_TOKEN),
        ({"max_tokens": 0}, Reason.INVALID_FIELD),
        ({"max_tokens": "7"}, Reason.INVALID_FIELD),
        ({"max_tokens": True}, Reason.INVALID_FIELD),
        ({"max_tokens": 10**30}, None),
        ({"min_tokens": 16}, None),
        ({"min_tokens": 17}, Reason.INVALID_FIELD),
        ({"min_tokens": -1}, Reason.INVALID_FIELD),
        ({"min_tokens": 1.5}, Reason.INVALID_FIELD),
        ({"prompt": ["a", "b"]}, Reason.PROMPT_LIST),
        ({"prompt": [[1], [2]]}, Reason.PROMPT_LIST),
        ({"prompt": [1, "a"]}, Reason.INVALID_FIELD),
        ({"prompt": [1, -1]}, Reason.INVALID_FIELD),
        ({"prompt": ""}, Reason.INVALID_FIELD),
        ({"prompt": []}, Reason.INVALID_FIELD),
        ({"prompt": None}, Reason.INVALID_FIELD),
        ({"prompt": None, "prompt_embeds": "x"}, Reason.PROMPT_EMBEDS),
        ({"logprobs": 0}, Reason.LOGPROBS),
        ({"prompt_logprobs": 0}, Reason.PROMPT_LOGPROBS),
        ({"echo": True}, Reason.ECHO),
        ({"n": 2}, Reason.SEVERAL_CHOICES),
        ({"best_of": 2}, Reason.SEVERAL_CHOICES),
        ({"use_beam_search": True}, Reason.BEAM_SEARCH),
        ({"presence_penalty": 0.1}, Reason.PENALTIES),
        ({"frequency_penalty": -0.1}, Reason.PENALTIES),
        ({"bad_words": ["x"]}, Reason.BAD_WORDS),
        ({"repetition_detection": {}}, Reason.REPETITION_DETECTION),
        ({"thinking_token_budget": 3}, Reason.REASONING),
        ({"response_format": {"type": "json_object"}}, Reason.STRUCTURED_OUTPUT),
        ({"structured_outputs": {"regex": "a"}}, Reason.STRUCTURED_OUTPUT),
        ({"guided_json": {}}, Reason.STRUCTURED_OUTPUT),
        ({"truncate_prompt_tokens": 5}, Reason.TRUNCATION),
        ({"return_token_ids": True}, Reason.TOKEN_IDS_WANTED),
        ({"seed": 1}, Reason.SEED),
        ({"seed": 1, "temperature": 0.5}, Reason.SEED),
        ({"seed": 1, "temperature": 0.99e-5}, None),
        ({"seed": 1, "temperature": 1e-5}, Reason.SEED),
        ({"suffix": "x"}, Reason.UNKNOWN_FIELD),
        ({"something_new": 1}, Reason.UNKNOWN_FIELD),
        ({"length_penalty": 2.0}, Reason.UNKNOWN_FIELD),
        ({"stop": [""]}, Reason.INVALID_FIELD),
        ({"stop": ["a", ""]}, Reason.INVALID_FIELD),
        ({"stop": [1]}, Reason.INVALID_FIELD),
        ({"stop": 1}, Reason.INVALID_FIELD),
        ({"stream": "yes"}, Reason.INVALID_FIELD),
        ({"stream": 1}, Reason.INVALID_FIELD),
        ({"stream_options": {"include_usage": True}}, Reason.INVALID_FIELD),
        ({"stream_options": {}}, Reason.INVALID_FIELD),
        ({"stream": True, "stream_options": {}}, None),
        ({"stream": True, "stream_options": {"include_usage": None, "include_obfuscation": False}}, None),
        ({"stream": True, "stream_options": {"include_usage": "yes"}}, Reason.INVALID_FIELD),
        ({"stream": True, "stream_options": {"continuous_usage_stats": 1}}, Reason.INVALID_FIELD),
        ({"stream": True, "stream_options": "x"}, Reason.INVALID_FIELD),
        ({"cache_salt": ""}, Reason.INVALID_FIELD),
    ],
)
def test_completion_by_continuation(fields: dict[str, Any], reason: Reason | None) -> None:
    assert obstacle(completion(**fields), CONTINUE) == reason


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"max_completion_tokens": 5}, None),
        ({"max_tokens": 1, "max_completion_tokens": 5}, None),
        ({"max_tokens": 5, "max_completion_tokens": 1}, Reason.SINGLE_TOKEN),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}, None),
        ({"messages": [{"role": "assistant", "content": None, "tool_calls": []}]}, None),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            Reason.MULTIMODAL,
        ),
        # one part or message in another form is enough
        ({"messages": [{"role": "user", "content": [_TEXT, {"type": "image_url"}]}]}, Reason.MULTIMODAL),
        ({"messages": [{"role": "user", "content": [{**_TEXT, "type": "input_text"}]}]}, Reason.MULTIMODAL),
        ({"messages": [{"role": "user", "content": [{**_TEXT, "text": None}]}]}, Reason.MULTIMODAL),
        ({"messages": [{"role": "user", "content": [_TEXT, "a"]}]}, Reason.INVALID_FIELD),
        ({"messages": [{"role": "user", "content": "a"}, {"content": "b"}]}, Reason.INVALID_FIELD),
        (
            {"messages": [{"role": "a", "content": "b", "name": "c", "tool_calls": [], "tool_call_id": "d"}]},
            None,
        ),
        ({"messages": [{"role": "user", "content": ["a"]}]}, Reason.INVALID_FIELD),
        ({"messages": [{"role": "user", "content": 1}]}, Reason.INVALID_FIELD),
        (
            {"messages": [{"role": "assistant", "content": "a", "reasoning_content": "b"}]},
            Reason.CHAT_RENDERING,
        ),
        ({"messages": [{"content": "a"}]}, Reason.INVALID_FIELD),
        ({"messages": []}, Reason.INVALID_FIELD),
        ({"messages": "a"}, Reason.INVALID_FIELD),
        ({"messages": 1}, Reason.INVALID_FIELD),
        ({"messages": ["a"]}, Reason.INVALID_FIELD),
        ({"chat_template": "x", "chat_template_kwargs": {"a": 1}, "add_generation_prompt": False}, None),
        ({"continue_final_message": True, "add_generation_prompt": False}, None),
        ({"continue_final_message": True}, Reason.INVALID_FIELD),
        ({"logprobs": False, "top_logprobs": 0, "tool_choice": "none", "parallel_tool_calls": True}, None),
        ({"logprobs": True}, Reason.LOGPROBS),
        ({"tools": [{}]}, Reason.TOOLS),
        ({"tool_choice": "auto"}, Reason.TOOLS),
        ({"functions": [{}]}, Reason.TOOLS),
        ({"reasoning_effort": "low"}, Reason.REASONING),
        ({"include_reasoning": False}, Reason.REASONING),
        ({"documents": [{}]}, Reason.CHAT_RENDERING),
        ({"mm_processor_kwargs": {}}, Reason.MULTIMODAL),
        ({"modalities": ["audio"]}, Reason.MULTIMODAL),
    ],
)
def test_chat_by_continuation(fields: dict[str, Any], reason: Reason | None) -> None:
    assert obstacle(chat(**fields), CONTINUE) == reason


def test_seeded_sampling_is_an_option() -> None:
    assert obstacle(completion(seed=1), Routing(continue_seeded=True)) is None


def test_parsed_chat_is_not_continued_and_completions_are() -> None:
    routing = Routing(workers_parse_chat=True)
    assert obstacle(chat(), routing) == Reason.PARSED_CHAT
    assert obstacle(completion(), routing) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"tools": [{}], "tool_choice": "auto", "logprobs": True, "presence_penalty": 1, "seed": 3}, None),
        ({"response_format": {"type": "json_object"}, "bad_words": ["x"], "something_new": 1}, None),
        ({"prompt_logprobs": 1}, Reason.PROMPT_LOGPROBS),
        ({"echo": True}, Reason.ECHO),
        ({"n": 2}, Reason.SEVERAL_CHOICES),
        ({"use_beam_search": True}, Reason.BEAM_SEARCH),
        ({"documents": [{}]}, Reason.CHAT_RENDERING),
        ({"reasoning_effort": "low"}, Reason.CHAT_RENDERING),
        ({"reasoning_effort": None}, None),
        ({"truncate_prompt_tokens": 5}, Reason.TRUNCATION),
        ({"cache_salt": 3}, Reason.INVALID_FIELD),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, Reason.MULTIMODAL),
    ],
)
def test_landing_takes_what_keeps_the_prompt(fields: dict[str, Any], reason: Reason | None) -> None:
    assert obstacle(chat(**fields), LAND) == reason


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"tools": [{}], "reasoning_effort": "low", "documents": [{}], "truncate_prompt_tokens": 5}, None),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, None),
        ({"n": 2}, Reason.SEVERAL_CHOICES),
        ({"max_completion_tokens": 1}, Reason.SINGLE_TOKEN),
    ],
)
def test_nixl_takes_nearly_everything(fields: dict[str, Any], reason: Reason | None) -> None:
    assert obstacle(chat(**fields), NIXL) == reason


def test_limits() -> None:
    limits = limits_of(completion())
    assert limits is not None
    assert (limits.max_tokens, limits.min_tokens) == (16, 0)
    limits = limits_of(chat(min_tokens=None))
    assert limits is not None
    assert (limits.max_tokens, limits.min_tokens) == (None, 0)


@pytest.mark.parametrize("field", [*sorted(INTERNAL_FIELDS), "lmcache.tag.request", "lmcache.skip_save"])
@pytest.mark.parametrize("value", [b"null", b'{"do_remote_prefill":true}'])
def test_engine_internal_fields_are_refused(field: str, value: bytes) -> None:
    with pytest.raises(ClientError) as caught:
        parse_body(b'{"prompt":"a","%s":%s}' % (field.encode(), value))
    assert (caught.value.status, caught.value.parameter) == (400, field)


def test_an_internal_field_cannot_hide_behind_an_escape_or_a_second_key() -> None:
    for raw in (b'{"kv\\u005ftransfer_params":{}}', b'{"kv_transfer_params":{},"kv_transfer_params":null}'):
        with pytest.raises(ClientError):
            parse_body(raw)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b'"a"', b"\xff", b"[" * 100_000, '{"a":1}'.encode("utf-16"), b'{"a":NaN}']
)
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(ClientError) as caught:
        parse_body(raw)
    assert (caught.value.status, caught.value.code) == (400, "malformed_json")


@pytest.mark.parametrize("routing", [LAND, NIXL])
@pytest.mark.parametrize(
    "fields", [{"stream": 1}, {"stream": True, "stream_options": {"include_usage": "yes"}}]
)
def test_an_unchanged_request_must_be_read_alike_by_router_and_worker(
    routing: Routing, fields: dict[str, Any]
) -> None:
    assert obstacle(completion(**fields), routing) is Reason.INVALID_FIELD
