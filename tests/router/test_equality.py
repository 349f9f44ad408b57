"""The disaggregated answer is the direct one, token by token, over every parameter."""

import asyncio
import random
from typing import Any

import pytest

from dpd_router.eligibility import Reason
from dpd_simulator import EngineConfig, shared_vocabulary
from tests.router.support import Result, Rig, prompt, running

REQUESTS = 1000
CONCURRENCY = 16


def _stops(generator: random.Random, text: str) -> Any:
    """Return stop strings of which some begin anywhere in the answer that is expected."""
    choices: list[str] = []
    for _ in range(generator.randint(1, 3)):
        if text and generator.random() < 0.8:
            start = generator.randrange(min(len(text), 8))
            choices.append(text[start : start + generator.randint(1, 8)])
        else:
            choices.append(generator.choice(["zz", "never", "ba", "."]))
    choices = [choice for choice in choices if choice]
    return choices[0] if len(choices) == 1 else choices or None


def _parameters(generator: random.Random) -> dict[str, Any]:
    """Return a random choice of parameters, many of which cannot be continued."""
    fields: dict[str, Any] = {"max_tokens": generator.randint(1, 12)}
    optional: dict[str, Any] = {
        "min_tokens": lambda: generator.randint(0, fields["max_tokens"]),
        "ignore_eos": lambda: generator.random() < 0.5,
        "include_stop_str_in_output": lambda: generator.random() < 0.7,
        "skip_special_tokens": lambda: generator.random() < 0.5,
        "repetition_penalty": lambda: generator.choice([1.0, 1.3]),
        "presence_penalty": lambda: generator.choice([0.0, 0.8]),
        "frequency_penalty": lambda: generator.choice([0.0, -0.5]),
        "logit_bias": lambda: {str(generator.randint(400, 9000)): 4.0},
        "stop_token_ids": lambda: [generator.randint(400, 9000) for _ in range(40)],
        "top_k": lambda: generator.choice([0, 5]),
        "top_p": lambda: generator.choice([1.0, 0.7]),
        "min_p": lambda: generator.choice([0.0, 0.05]),
        "user": lambda: "somebody",
        "n": lambda: generator.choice([1, 1, 2]),
        "cache_salt": lambda: "a client's own salt",
    }
    for name, value in optional.items():
        if generator.random() < 0.2:
            fields[name] = value()
    if generator.random() < 0.3:
        fields |= {"temperature": 0.8, "seed": generator.randint(0, 1000)}
    else:
        fields["temperature"] = 0
    return fields


def _request(generator: random.Random) -> tuple[str, dict[str, Any]]:
    fields = {"model": "m", **_parameters(generator)}
    ids = prompt(generator.randint(200, 900), generator.randrange(10**6))
    vocabulary = shared_vocabulary()
    match generator.randrange(4):
        case 0:
            fields["prompt"] = vocabulary.decode(ids)
        case 1:
            # ends with part of a character, so that the first token may complete one
            fields["prompt"] = [
                *ids,
                *vocabulary.encode("\u96e4", add_special_tokens=False)[: generator.randint(1, 2)],
            ]
        case 2:
            fields["prompt"] = ids
        case _:
            text = vocabulary.decode(ids)
            fields["messages"] = [{"role": "system", "content": "ba"}, {"role": "user", "content": text}]
            if generator.random() < 0.3:
                fields["max_completion_tokens"] = fields.pop("max_tokens")
            if generator.random() < 0.2:
                fields["logprobs"] = True
            return "/v1/chat/completions", fields
    return "/v1/completions", fields


async def _both(rig: Rig, path: str, fields: dict[str, Any]) -> tuple[Result, Result]:
    direct = rig.cluster.decoders[-1].url
    return await rig.post(path, fields), await rig.post(path, fields, base=direct)


def _assert_equal(fields: dict[str, Any], routed: Result, direct: Result) -> None:
    said = {name: value for name, value in fields.items() if name not in {"prompt", "messages"}}
    assert routed.status == direct.status, said
    if routed.status != 200:
        assert routed.body["error"]["message"] == direct.body["error"]["message"]
        return
    if fields.get("n", 1) > 1:
        assert [c.get("text", c.get("message")) for c in routed.body["choices"]] == [
            c.get("text", c.get("message")) for c in direct.body["choices"]
        ]
        return
    assert routed.text == direct.text, said
    assert routed.finish == direct.finish, said
    assert routed.usage == direct.usage, said


async def _compare(rig: Rig, seed: int) -> None:
    generator = random.Random(seed)
    path, fields = _request(generator)
    if generator.random() < 0.4:
        expected = await rig.post(path, {**fields, "n": 1}, base=rig.cluster.decoders[-1].url)
        if expected.status == 200 and (stop := _stops(generator, expected.text)):
            fields["stop"] = stop
    if generator.random() < 0.5 and fields.get("n", 1) == 1:
        fields["stream"] = True
        if generator.random() < 0.7:
            fields["stream_options"] = {"include_usage": True}
            if generator.random() < 0.4:
                fields["stream_options"]["continuous_usage_stats"] = True
    routed, direct = await _both(rig, path, fields)
    _assert_equal(fields, routed, direct)


async def _compare_all(rig: Rig, seeds: range) -> None:
    limit = asyncio.Semaphore(CONCURRENCY)

    async def one(seed: int) -> None:
        async with limit:
            await _compare(rig, seed)

    async with asyncio.TaskGroup() as group:
        for seed in seeds:
            group.create_task(one(seed))


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", ["worker", "file"])
async def test_continued_answers_equal_direct_answers(tokenizer: str, tmp_path: Any) -> None:
    flags = ["--strategy", "continue", "--threshold", "256"]
    if tokenizer == "file":
        path = tmp_path / "tokenizer.json"
        shared_vocabulary().tokenizer.save(str(path))
        flags += ["--tokenizer", str(path)]
    async with running(*flags, prefill=2, decode=2) as rig:
        await _compare_all(rig, range(REQUESTS))
        await rig.settled()
        assert rig.used_chunks() == [(0,), (0,)]
        assert rig.decisions("disaggregated", Reason.THRESHOLD) > REQUESTS / 6
        assert rig.metric("dpd_router_handoff_hits_total", result="full") > REQUESTS / 6
        # a stop string over the joint ends the decoder's stream before its usage
        reported = [
            rig.metric("dpd_router_handoff_hits_total", result=result) for result in ("miss", "partial")
        ]
        assert reported == [0, 0]
        unknown_text = rig.decisions("fallback", Reason.FIRST_TOKEN_TEXT_UNKNOWN)
        assert (unknown_text > 0) == (tokenizer == "worker")
        assert rig.metric("dpd_router_decisions_total", decision="fallback") == unknown_text


@pytest.mark.slow
async def test_landed_answers_equal_direct_answers() -> None:
    engine = EngineConfig(prefix_caching=True)
    async with running("--strategy", "land", "--threshold", "256", prefill=2, decode=2, engine=engine) as rig:
        await _compare_all(rig, range(REQUESTS))
        await rig.settled()
        assert rig.used_chunks() == [(0,), (0,)]
        assert rig.decisions("disaggregated", Reason.THRESHOLD) > REQUESTS / 2
        assert rig.metric("dpd_router_decisions_total", decision="fallback") == 0
        assert rig.metric("dpd_router_handoff_failures_total") == 0
