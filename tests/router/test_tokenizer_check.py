"""A tokenizer file that is not the workers' own must not change a prompt or an answer."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tokenizers import Tokenizer, models, pre_tokenizers

from dpd_router.config import HealthPolicy, Timeouts
from dpd_router.eligibility import Reason
from dpd_router.metrics import Metrics
from dpd_router.pool import Pool, Role
from dpd_router.tokenizer_check import TokenizerCheck
from dpd_router.tokens import FileTokenizer
from dpd_router.upstream import Upstream
from dpd_simulator.tokenizer import shared_vocabulary
from tests.router.support import LIMIT_SECONDS, Rig, prompt, running


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The simulated engines' own tokenizer."""
    path = tmp_path / "own.json"
    shared_vocabulary().tokenizer.save(str(path))
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A tokenizer of the same size with a word for each id."""
    tokenizer = Tokenizer(models.WordLevel({f"t{n}": n for n in range(16_032)}, unk_token="t2"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    path = tmp_path / "other.json"
    tokenizer.save(str(path))
    return path


async def test_answers_are_right_with_a_tokenizer_that_is_not_the_workers(
    other: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vocabulary = shared_vocabulary()
    halves = vocabulary.encode("\u00e9", add_special_tokens=False)
    async with running("--tokenizer", str(other)) as rig:
        await _same_as_direct(rig, prompt=vocabulary.decode(prompt(700)), max_tokens=8)
        assert rig.metric("dpd_router_tokenize_seconds_count", where="worker") == 1
        for seed in range(4):
            await _same_as_direct(rig, prompt=prompt(700, seed), max_tokens=8, allowed_token_ids=halves)
        # a first token that is half of a character is known to be one only with the right tokenizer
        assert rig.decisions("fallback", Reason.FIRST_TOKEN_TEXT_UNKNOWN) > 0
        assert rig.metric("dpd_router_tokenizer_agrees") == 0
        await rig.settled()
    told = [record for record in caplog.records if "`--tokenizer` is not the worker's" in record.message]
    assert len(told) == 2


async def test_the_workers_own_tokenizer_is_used(own: Path) -> None:
    vocabulary = shared_vocabulary()
    async with running("--tokenizer", str(own)) as rig:
        await _same_as_direct(rig, prompt=vocabulary.decode(prompt(700)), max_tokens=8)
        assert rig.metric("dpd_router_tokenize_seconds_count", where="process") == 1
        halves = vocabulary.encode("\u00e9", add_special_tokens=False)
        for seed in range(4):
            await _same_as_direct(rig, prompt=prompt(700, seed), max_tokens=8, allowed_token_ids=halves)
        assert rig.metric("dpd_router_decisions_total", decision="fallback") == 0
        assert rig.metric("dpd_router_tokenizer_agrees") == 2


async def _same_as_direct(rig: Rig, **fields: Any) -> None:
    body = {"model": "m", "temperature": 0, "ignore_eos": True, **fields}
    routed = await rig.post("/v1/completions", body)
    direct = await rig.post("/v1/completions", body, base=rig.cluster.decoders[0].url)
    assert (routed.text, routed.usage) == (direct.text, direct.usage)


@pytest.fixture
async def worker_url() -> AsyncIterator[tuple[str, list[web.Response]]]:
    """A worker, and what its `/tokenize` answers next."""
    answers: list[web.Response] = []

    async def tokenize(_: web.Request) -> web.Response:
        return answers.pop(0)

    application = web.Application()
    application.router.add_post("/tokenize", tokenize)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}", answers
    await runner.cleanup()


def used(check: TokenizerCheck) -> bool:
    return check.tokenizer is not None


async def test_the_file_waits_until_every_worker_that_is_up_has_agreed(
    own: Path, worker_url: tuple[str, list[web.Response]]
) -> None:
    url, answers = worker_url
    metrics = Metrics()
    pool, upstream, tokenizer = (
        Pool(HealthPolicy(), metrics),
        Upstream(Timeouts(connect_timeout_seconds=LIMIT_SECONDS)),
        FileTokenizer(own),
    )
    check = TokenizerCheck(tokenizer, pool, upstream, metrics, timeout_seconds=LIMIT_SECONDS)
    same = await tokenizer.encode(tokenizer.probe, add_special_tokens=True)
    await upstream.start()
    decoder, prefiller = (
        pool.add(Role.DECODE, url),
        pool.add(Role.PREFILL, url.replace("127.0.0.1", "localhost")),
    )
    pool.passed(decoder, {"m": 1000}, 0)
    try:
        assert not used(check)
        for answer in (
            web.Response(status=500),
            web.Response(text="no json"),
            web.json_response({"tokens": same}),
        ):
            assert not used(check)
            answers.append(answer)
            await check.look(decoder)
        assert used(check)

        pool.passed(prefiller, {"m": 1000}, 0)
        assert not used(check)
        answers.append(web.json_response({"tokens": [*same, 0]}))
        await check.look(prefiller)
        assert not used(check)
        # asked once per process
        await check.look(prefiller)

        pool.refused(prefiller)
        assert used(check)
        pool.passed(prefiller, {"m": 1000}, 0)
        assert not used(check)
        answers.append(web.json_response({"tokens": same}))
        await check.look(prefiller)
        assert used(check)
    finally:
        await upstream.stop()
    assert not answers
