"""The simulated API answers like vLLM's, and its text depends on everything that a real engine's text depends on."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dpd_simulator import EngineConfig, SimulatedCluster, SimulatedEngine, shared_vocabulary
from tests.router.simulator.conftest import Hub, HubFactory, ids

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"


@pytest.fixture
async def hub(hub_factory: HubFactory) -> Hub:
    engine = EngineConfig(served_model_names=("llama", "dpd-port-epoch-3"), automatic_tool_choice=False)
    return await hub_factory(SimulatedCluster(colocated=1, engine=engine))


@pytest.fixture
def engine(hub: Hub) -> SimulatedEngine:
    return hub.cluster.colocated[0]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(choice["text"] for event in events for choice in event["choices"])


async def test_a_stream_joins_to_the_whole_answer(hub: Hub, engine: SimulatedEngine) -> None:
    body = {"prompt": ids(200, 1), "max_tokens": 60, "temperature": 0, "ignore_eos": True}
    whole = await hub.post(engine, COMPLETIONS, **body)
    events = await hub.stream(engine, COMPLETIONS, **body, stream_options={"include_usage": True})
    assert text_of(events) == whole["choices"][0]["text"]
    assert events[-1]["usage"] == {
        "prompt_tokens": 200,
        "completion_tokens": 60,
        "total_tokens": 260,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert events[-1]["choices"] == []
    assert events[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "length"


async def test_chat_streams_the_role_first_and_joins_to_the_whole_answer(
    hub: Hub, engine: SimulatedEngine
) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 20, "temperature": 0}
    whole = await hub.post(engine, CHAT, **body)
    events = await hub.stream(engine, CHAT, **body)
    deltas = [event["choices"][0]["delta"] for event in events]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta["content"] for delta in deltas) == whole["choices"][0]["message"]["content"]
    assert "usage" not in events[-1]
    assert whole["object"] == "chat.completion"
    assert {event["object"] for event in events} == {"chat.completion.chunk"}


async def test_text_depends_on_ids_and_not_on_what_was_prompt_or_output(
    hub: Hub, engine: SimulatedEngine
) -> None:
    body = {"temperature": 0, "ignore_eos": True, "return_token_ids": True}
    first = await hub.post(engine, COMPLETIONS, prompt=ids(100, 1), max_tokens=30, **body)
    tokens = first["choices"][0]["token_ids"]
    rest = await hub.post(engine, COMPLETIONS, prompt=[*ids(100, 1), *tokens[:7]], max_tokens=23, **body)
    assert rest["choices"][0]["token_ids"] == tokens[7:]


@pytest.mark.parametrize(
    "penalty",
    [{"presence_penalty": 1.5}, {"frequency_penalty": 1.0}, {"seed": 7, "temperature": 1.0}],
    ids=["presence", "frequency", "seed"],
)
async def test_output_state_starts_at_the_first_output_token(
    hub: Hub, engine: SimulatedEngine, penalty: dict[str, Any]
) -> None:
    body = {"temperature": 0, "ignore_eos": True, "return_token_ids": True} | penalty
    different = 0
    for seed in range(20):
        prompt = ids(60, seed)
        first = await hub.post(engine, COMPLETIONS, prompt=prompt, max_tokens=60, **body)
        again = await hub.post(engine, COMPLETIONS, prompt=prompt, max_tokens=60, **body)
        tokens = first["choices"][0]["token_ids"]
        assert again["choices"][0]["token_ids"] == tokens
        moved = await hub.post(engine, COMPLETIONS, prompt=[*prompt, tokens[0]], max_tokens=59, **body)
        different += moved["choices"][0]["token_ids"] != tokens[1:]
    # Only repetitions of the very first token are treated otherwise: about two texts in five.
    assert different >= 4


async def test_half_a_character_at_the_end_of_the_prompt_brings_the_whole_prompt_back(
    hub: Hub, engine: SimulatedEngine
) -> None:
    vocabulary = shared_vocabulary()
    prompt = vocabulary.encode("once upon a time", add_special_tokens=False)
    half = vocabulary.encode("é", add_special_tokens=False)[0]
    answer = await hub.post(engine, COMPLETIONS, prompt=[*prompt, half], max_tokens=2, temperature=0)
    assert answer["choices"][0]["text"].startswith("once upon a time")


async def test_a_half_character_waits_for_the_token_that_completes_it(
    hub: Hub, engine: SimulatedEngine
) -> None:
    vocabulary = shared_vocabulary()
    pieces = vocabulary.encode("€", add_special_tokens=False)
    assert len(pieces) == 3
    for prompt in (ids(50, seed) for seed in range(40)):
        events = await hub.stream(
            engine, COMPLETIONS, prompt=prompt, max_tokens=40, temperature=0, return_token_ids=True
        )
        assert "�" not in text_of(events[:-1])


async def test_stop_strings_are_held_back_and_cut_off(hub: Hub, engine: SimulatedEngine) -> None:
    body = {"prompt": ids(100, 3), "max_tokens": 60, "temperature": 0, "ignore_eos": True}
    whole = (await hub.post(engine, COMPLETIONS, **body))["choices"][0]["text"]
    stop = whole[20:29]
    answer = await hub.post(engine, COMPLETIONS, **body, stop=[stop])
    position = whole.index(stop)
    assert answer["choices"][0]["text"] == whole[:position]
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["choices"][0]["stop_reason"] == stop
    events = await hub.stream(engine, COMPLETIONS, **body, stop=[stop])
    assert text_of(events) == whole[:position]
    included = await hub.post(engine, COMPLETIONS, **body, stop=stop, include_stop_str_in_output=True)
    assert included["choices"][0]["text"] == whole[: position + len(stop)]


async def test_min_tokens_suppresses_end_of_turn_and_stop_strings(hub: Hub, engine: SimulatedEngine) -> None:
    lengths = []
    for seed in range(40):
        body = {"prompt": ids(30, seed), "max_tokens": 40, "temperature": 0}
        free = await hub.post(engine, COMPLETIONS, **body)
        held = await hub.post(engine, COMPLETIONS, **body, min_tokens=30)
        lengths.append(free["usage"]["completion_tokens"])
        assert held["usage"]["completion_tokens"] >= 30
        if free["choices"][0]["finish_reason"] == "stop":
            assert free["choices"][0]["stop_reason"] is None
    assert min(lengths) < 30


async def test_a_stop_token_is_counted_but_not_shown(hub: Hub, engine: SimulatedEngine) -> None:
    body = {"prompt": ids(30, 1), "max_tokens": 20, "temperature": 0, "ignore_eos": True}
    whole = await hub.post(engine, COMPLETIONS, **body, return_token_ids=True)
    token = whole["choices"][0]["token_ids"][5]
    cut = await hub.post(engine, COMPLETIONS, **body, stop_token_ids=[token])
    position = whole["choices"][0]["token_ids"].index(token)
    assert cut["usage"]["completion_tokens"] == position + 1
    assert cut["choices"][0]["stop_reason"] == token
    assert whole["choices"][0]["text"].startswith(cut["choices"][0]["text"])


async def test_seeded_choices_differ_from_each_other_and_repeat(hub: Hub, engine: SimulatedEngine) -> None:
    body = {"prompt": ids(30, 1), "max_tokens": 12, "temperature": 1.0, "seed": 11, "n": 3}
    one = await hub.post(engine, COMPLETIONS, **body)
    two = await hub.post(engine, COMPLETIONS, **body)
    texts = [choice["text"] for choice in one["choices"]]
    assert texts == [choice["text"] for choice in two["choices"]]
    assert len(set(texts)) == 3
    assert [choice["index"] for choice in one["choices"]] == [0, 1, 2]
    single = await hub.post(engine, COMPLETIONS, **{**body, "n": 1, "seed": 12})
    assert single["choices"][0]["text"] == texts[1]


async def test_several_prompts_give_several_choices(hub: Hub, engine: SimulatedEngine) -> None:
    answer = await hub.post(engine, COMPLETIONS, prompt=["ba be", "bi bo"], max_tokens=3, temperature=0)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    events = await hub.stream(engine, COMPLETIONS, prompt=["ba be", "bi bo"], max_tokens=3, temperature=0)
    for choice in answer["choices"]:
        parts = [e["choices"][0]["text"] for e in events if e["choices"][0]["index"] == choice["index"]]
        assert "".join(parts) == choice["text"]


async def test_echo_and_log_probabilities(hub: Hub, engine: SimulatedEngine) -> None:
    body = {"prompt": "babe bibo", "max_tokens": 3, "temperature": 0, "logprobs": 2, "echo": True}
    choice = (await hub.post(engine, COMPLETIONS, **body))["choices"][0]
    assert choice["text"].startswith("<|begin_of_text|>babe bibo")
    logprobs = choice["logprobs"]
    assert logprobs["token_logprobs"][0] is None
    assert all(value <= 0 for value in logprobs["token_logprobs"][1:])
    assert "".join(logprobs["tokens"]).replace("<|eot_id|>", "") == choice["text"]
    only_prompt = await hub.post(engine, COMPLETIONS, **{**body, "max_tokens": 0})
    assert only_prompt["choices"][0]["text"] == "<|begin_of_text|>babe bibo"

    chat = await hub.post(
        engine,
        CHAT,
        messages=[{"role": "user", "content": "x"}],
        max_tokens=2,
        temperature=0,
        logprobs=True,
        top_logprobs=3,
    )
    content = chat["choices"][0]["logprobs"]["content"]
    assert content[0]["logprob"] == content[0]["top_logprobs"][0]["logprob"]
    assert len(content[0]["top_logprobs"]) == 3


async def test_tokenize_renders_chats_as_the_chat_endpoint_does(hub: Hub, engine: SimulatedEngine) -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "naïve €"}]
    tokens = (await hub.post(engine, "/tokenize", messages=messages))["tokens"]
    chat = await hub.post(engine, CHAT, messages=messages, max_tokens=8, temperature=0, return_token_ids=True)
    assert chat["prompt_token_ids"] == tokens
    completion = await hub.post(engine, COMPLETIONS, prompt=tokens, max_tokens=8, temperature=0)
    assert completion["choices"][0]["text"] == chat["choices"][0]["message"]["content"]
    back = await hub.post(engine, "/detokenize", tokens=tokens)
    assert back["prompt"].endswith("naïve €<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n")


async def test_tools_and_grammars_steer_the_text(hub: Hub, engine: SimulatedEngine) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 6, "temperature": 0}
    plain = (await hub.post(engine, CHAT, **body))["choices"][0]["message"]["content"]
    refused = await hub.post(engine, CHAT, **body, tools=tools)
    assert refused["status"] == 400
    assert "enable-auto-tool-choice" in refused["error"]["message"]
    forced = await hub.post(
        engine, CHAT, **body, tools=tools, tool_choice={"type": "function", "function": {"name": "look"}}
    )
    assert forced["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "look"
    grammar = await hub.post(engine, CHAT, **body, response_format={"type": "json_object"})
    assert grammar["choices"][0]["message"]["content"] != plain


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"prompt": "x", "model": "other"}, 404, "`other` does not exist"),
        ({"prompt": "x", "max_tokens": 0}, 400, "max_tokens must be at least 1"),
        ({"prompt": "x", "max_tokens": 2, "min_tokens": 3}, 400, "min_tokens"),
        ({"prompt": ""}, 400, "must be provided and non-empty"),
        ({"prompt": "x", "max_tokens": 99_999}, 400, "cannot be greater than"),
        ({"prompt": [5] * 16_384}, 400, "maximum context length"),
        ({"prompt": [999_999]}, 400, "out of vocabulary"),
        ({"prompt": "x", "temperature": -1}, 400, "temperature"),
        ({"prompt": "x", "n": 2, "temperature": 0}, 400, "greedy"),
        ({"prompt": "x", "stream_options": {"include_usage": True}}, 400, "stream=True"),
        ({"prompt": "x", "stop": [""]}, 400, "empty string"),
        ({"prompt": "x", "max_tokens": "many"}, 400, "max_tokens"),
    ],
)
async def test_bad_requests_are_refused(
    hub: Hub, engine: SimulatedEngine, body: dict[str, Any], status: int, message: str
) -> None:
    answer = await hub.post(engine, COMPLETIONS, **body)
    assert answer["status"] == status
    assert answer["error"]["code"] == status
    assert message in answer["error"]["message"]


async def test_malformed_json_is_a_bad_request(hub: Hub, engine: SimulatedEngine) -> None:
    async with hub.session.post(engine.url + COMPLETIONS, data=b'{"prompt": ') as response:
        assert response.status == 400


async def test_models_lists_aliases(hub: Hub, engine: SimulatedEngine) -> None:
    async with hub.session.get(engine.url + "/v1/models") as response:
        models = (await response.json())["data"]
    assert [model["id"] for model in models] == ["llama", "dpd-port-epoch-3"]
    assert models[0]["max_model_len"] == 16_384


async def test_the_request_id_of_the_client_is_in_the_answer(hub: Hub, engine: SimulatedEngine) -> None:
    body = {"prompt": "x", "max_tokens": 1}
    async with hub.session.post(
        engine.url + COMPLETIONS, json=body, headers={"X-Request-Id": "abc"}
    ) as response:
        assert (await response.json())["id"] == "cmpl-abc"


async def test_metrics_carry_vllms_names_and_count(hub: Hub, engine: SimulatedEngine) -> None:
    await hub.post(engine, COMPLETIONS, prompt=ids(50, 1), max_tokens=5, ignore_eos=True)
    async with hub.session.get(engine.url + "/metrics") as response:
        families = {family.name: family for family in text_string_to_metric_families(await response.text())}
    values = {
        (sample.name, sample.labels.get("finished_reason")): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert values["vllm:prompt_tokens_total", None] == 50
    assert values["vllm:generation_tokens_total", None] == 5
    assert values["vllm:request_success_total", "length"] == 1
    assert values["vllm:time_to_first_token_seconds_count", None] == 1
    assert values["vllm:inter_token_latency_seconds_count", None] == 4
    assert {"vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:num_preemptions"} <= set(families)
    assert all(sample.labels["model_name"] == "llama" for sample in families["vllm:prompt_tokens"].samples)


async def test_lmcache_metrics_count_stores_and_hits(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1))
    first = await hub.prefill(ids(600, 1), "m", tag="m")
    assert await hub.wait_notified("m")
    await hub.decode([*ids(600, 1), first["kv_transfer_params"]["first_tok"]], tag="m")
    async with hub.session.get(hub.cluster.prefillers[0].url + "/metrics") as response:
        stored = await response.text()
    async with hub.session.get(hub.cluster.decoders[0].url + "/metrics") as response:
        hits = await response.text()
    line = next(line for line in stored.splitlines() if line.startswith("lmcache:num_stored_tokens_total"))
    assert float(line.rsplit(" ", 1)[1]) == 600
    line = next(line for line in hits.splitlines() if line.startswith("lmcache:num_hit_tokens_total"))
    assert float(line.rsplit(" ", 1)[1]) == 600
    line = next(
        line for line in hits.splitlines() if line.startswith("vllm:external_prefix_cache_hits_total")
    )
    assert float(line.rsplit(" ", 1)[1]) == 600
