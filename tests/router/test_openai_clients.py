"""Real clients, the `openai` package and `curl`, against a router before simulated 2P2D: both paths, and errors."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from dpd_router.eligibility import Reason
from dpd_simulator import Fault, FaultKind, shared_vocabulary
from tests.router.support import LIMIT_SECONDS, Rig, prompt, running

# the rig's threshold is 512 tokens; a decoded prompt of random words has about as many tokens as it was made of
LONG = shared_vocabulary().decode(prompt(900, 1))
SHORT = "bada dogi"

OPTIONS: dict[str, Any] = {"api_key": "unused", "max_retries": 0, "timeout": LIMIT_SECONDS}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with running(prefill=2, decode=2) as started:
        yield started


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{rig.base}/v1", **OPTIONS) as made:
        yield made


@pytest.fixture
async def direct(rig: Rig) -> AsyncIterator[AsyncOpenAI]:
    base_url = f"{rig.cluster.decoders[0].url}/v1"
    async with AsyncOpenAI(base_url=base_url, **OPTIONS) as made:
        yield made


@pytest.mark.parametrize(("text", "disaggregated"), [(LONG, 1), (SHORT, 0)], ids=["long", "short"])
async def test_a_completion(
    rig: Rig, client: AsyncOpenAI, direct: AsyncOpenAI, text: str, disaggregated: int
) -> None:
    routed = await client.completions.create(model="m", prompt=text, max_tokens=20, temperature=0)
    expected = await direct.completions.create(model="m", prompt=text, max_tokens=20, temperature=0)
    assert routed.choices[0].text == expected.choices[0].text
    assert routed.choices[0].finish_reason == expected.choices[0].finish_reason
    assert routed.usage is not None
    assert expected.usage is not None
    assert routed.usage.prompt_tokens == expected.usage.prompt_tokens
    assert routed.usage.completion_tokens == expected.usage.completion_tokens
    assert rig.decisions("disaggregated", Reason.THRESHOLD) == disaggregated
    await rig.settled()


@pytest.mark.parametrize(("text", "disaggregated"), [(LONG, 1), (SHORT, 0)], ids=["long", "short"])
async def test_a_streamed_chat(
    rig: Rig, client: AsyncOpenAI, direct: AsyncOpenAI, text: str, disaggregated: int
) -> None:
    async def answer(of: AsyncOpenAI) -> tuple[list[str | None], str, str | None, int]:
        roles, words, reason, tokens = [], "", None, 0
        stream = await of.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": text}],
            max_completion_tokens=30,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            if chunk.usage is not None:
                tokens = chunk.usage.completion_tokens
            for choice in chunk.choices:
                if choice.delta.role is not None:
                    roles.append(choice.delta.role)
                words += choice.delta.content or ""
                reason = choice.finish_reason or reason
        return list(roles), words, reason, tokens

    routed = await answer(client)
    assert routed == await answer(direct)
    assert routed[0] == ["assistant"]
    assert rig.decisions("disaggregated", Reason.THRESHOLD) == disaggregated
    await rig.settled()


async def test_a_chat_that_does_not_stream(client: AsyncOpenAI, direct: AsyncOpenAI) -> None:
    answers = [
        await of.chat.completions.create(
            model="m",
            messages=[{"role": "system", "content": "ba"}, {"role": "user", "content": LONG}],
            max_tokens=12,
            temperature=0,
        )
        for of in (client, direct)
    ]
    assert answers[0].choices[0].message == answers[1].choices[0].message
    assert answers[0].object == answers[1].object == "chat.completion"


async def test_many_streams_at_once_over_both_paths(rig: Rig, client: AsyncOpenAI) -> None:
    async def one(number: int) -> str:
        text = shared_vocabulary().decode(prompt(700 if number % 2 else 20, number))
        words = ""
        stream = await client.completions.create(
            model="m", prompt=text, max_tokens=15, temperature=0, stream=True, extra_body={"ignore_eos": True}
        )
        async for chunk in stream:
            words += chunk.choices[0].text
        return words

    answers = await asyncio.gather(*(one(number) for number in range(40)))
    assert all(answers)
    # a first token that is half a character cannot be shown without a tokenizer file: that prompt is decoded directly
    taken = rig.decisions("disaggregated", Reason.THRESHOLD)
    assert taken + rig.metric("dpd_router_decisions_total", decision="fallback") == 20
    assert taken > 10
    await rig.settled()
    assert rig.used_chunks() == [(0,), (0,)]


async def test_models_are_listed(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["m"]


async def test_an_unknown_model_is_not_found(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        await client.completions.create(model="other", prompt=SHORT)
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        await client.completions.create(model="other", prompt=LONG)


async def test_a_value_that_the_worker_refuses_is_a_bad_request_on_both_paths(client: AsyncOpenAI) -> None:
    for text in (SHORT, LONG):
        with pytest.raises(openai.BadRequestError, match="temperature"):
            await client.completions.create(model="m", prompt=text, temperature=7)


async def test_handoff_fields_of_a_client_are_refused(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="kv_transfer_params"):
        await client.completions.create(
            model="m", prompt=SHORT, extra_body={"kv_transfer_params": {"lmcache.tag.a": "b"}}
        )


async def test_a_path_that_is_not_served(rig: Rig, client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        await client.fine_tuning.jobs.create(model="m", training_file="f")


async def test_no_decoder_is_service_unavailable_with_a_time_to_come_back(
    rig: Rig, client: AsyncOpenAI
) -> None:
    for engine in rig.cluster.decoders:
        await engine.stop()
    with pytest.raises(openai.InternalServerError) as caught:
        await client.completions.create(model="m", prompt=SHORT)
    assert caught.value.status_code == 503
    assert int(caught.value.response.headers["Retry-After"]) >= 1


async def test_an_error_inside_a_stream_reaches_the_client_as_an_error(rig: Rig, client: AsyncOpenAI) -> None:
    for engine in rig.cluster.decoders:
        await engine.add_fault(Fault(kind=FaultKind.ERROR_IN_STREAM, tokens=4, times=1))
    stream = await client.completions.create(
        model="m", prompt=SHORT, max_tokens=30, stream=True, extra_body={"ignore_eos": True}
    )
    with pytest.raises(openai.APIError, match="Internal server error"):
        async for _ in stream:
            pass


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


async def _curl(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        "curl",
        "--silent",
        "--no-buffer",
        "--max-time",
        str(LIMIT_SECONDS),
        "--write-out",
        "\n%{http_code}",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    body, _, status = out.decode().rpartition("\n")
    return int(status), body


@needs_curl
@pytest.mark.parametrize("text", [LONG, SHORT], ids=["long", "short"])
async def test_curl_streams_events_that_end_with_the_end_mark(rig: Rig, text: str) -> None:
    body = json.dumps({"model": "m", "prompt": text, "max_tokens": 8, "temperature": 0, "stream": True})
    status, raw = await _curl(
        f"{rig.base}/v1/completions", "-H", "Content-Type: application/json", "-d", body
    )
    assert status == 200
    lines = [line for line in raw.split("\n\n") if line.strip()]
    assert lines[-1] == "data: [DONE]"
    words = "".join(json.loads(line.removeprefix("data: "))["choices"][0]["text"] for line in lines[:-1])
    expected = await rig.post(
        "/v1/completions",
        model="m",
        prompt=text,
        max_tokens=8,
        temperature=0,
        base=rig.cluster.decoders[0].url,
    )
    assert words == expected.text


@needs_curl
async def test_curl_posts_a_body_in_pieces_with_expect_continue(rig: Rig) -> None:
    body = json.dumps({"model": "m", "prompt": LONG, "max_tokens": 4, "temperature": 0})
    status, raw = await _curl(
        f"{rig.base}/v1/completions",
        "-H",
        "Content-Type: application/json",
        "-H",
        "Transfer-Encoding: chunked",
        "-H",
        "Expect: 100-continue",
        "-d",
        body,
    )
    assert status == 200
    assert json.loads(raw)["choices"][0]["finish_reason"] == "length"


@needs_curl
async def test_curl_gets_an_error_object_for_malformed_json(rig: Rig) -> None:
    status, raw = await _curl(f"{rig.base}/v1/chat/completions", "-d", '{"model": ')
    assert status == 400
    assert json.loads(raw)["error"]["message"]


@needs_curl
async def test_curl_reads_health_readiness_and_metrics(rig: Rig) -> None:
    for path in ("/health", "/ready"):
        assert (await _curl(rig.base + path))[0] == 200
    status, raw = await _curl(f"{rig.base}/metrics")
    assert status == 200
    assert "dpd_router_decisions_total" in raw
