from pathlib import Path
from typing import Any

import pytest

from dpd_router.config import DiscoveryPolicy, Estimator, HealthPolicy, Listen, Routing, Settings, Transfer
from dpd_router.decision import Decider, Direct, Disaggregate
from dpd_router.eligibility import Reason
from dpd_router.generation import Generation, Kind
from dpd_router.metrics import Metrics
from dpd_router.other_routers import OtherRouters
from dpd_router.pool import Pool, Role
from dpd_router.tokens import (
    FileTokenizer,
    TokenizedPrompt,
    TokenizeError,
    affinity_prefix,
    prompt_text_sizes,
)
from dpd_simulator import shared_vocabulary


class Tokenizer:
    """Gives as many ids as it is told to."""

    def __init__(self) -> None:
        self.tokens = 5000
        self.max_model_len = 16384
        self.error: TokenizeError | None = None
        self.calls = 0

    async def tokenize(self, generation: Generation) -> TokenizedPrompt:
        self.calls += 1
        if self.error is not None:
            raise self.error
        prompt = generation.body.get("prompt")
        ids = prompt if isinstance(prompt, list) else [1] * self.tokens
        return TokenizedPrompt(ids=ids, max_model_len=self.max_model_len)


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer()


@pytest.fixture
def pool() -> Pool:
    made = Pool(HealthPolicy(), Metrics())
    for role, name, length in (
        (Role.PREFILL, "p", 100_000),
        (Role.DECODE, "d", 90_000),
        (Role.DECODE, "e", 80_000),
    ):
        made.passed(made.add(role, f"http://{name}:1"), {"m": length, "adapter": 0}, 0)
    return made


def generation_of(**fields: Any) -> Generation:
    body = {"model": "m", "prompt": "x" * 20_000, **fields}
    kind = Kind.CHAT if "messages" in fields else Kind.COMPLETION
    return Generation(kind=kind, request_id="r", body=body, raw=b"", headers={})


async def decide(
    pool: Pool,
    tokenizer: Tokenizer,
    routing: Routing | None = None,
    discovery: DiscoveryPolicy | None = None,
    metrics: Metrics | None = None,
    /,
    **fields: Any,
) -> Direct | Disaggregate:
    settings = Settings(
        listen=Listen(),
        routing=routing or Routing(threshold=1000),
        discovery=discovery or DiscoveryPolicy(),
    )
    others = OtherRouters(settings.discovery, Metrics())
    decider = Decider(settings, pool, tokenizer, metrics or Metrics(), others)
    return await decider.decide(generation_of(**fields))


async def test_long_prompt_is_disaggregated(pool: Pool, tokenizer: Tokenizer) -> None:
    decision = await decide(pool, tokenizer)
    assert isinstance(decision, Disaggregate)
    assert (decision.tokens, len(decision.ids), decision.max_tokens) == (5000, 5000, 16)


async def test_threshold_is_inclusive(pool: Pool, tokenizer: Tokenizer) -> None:
    tokenizer.tokens = 1000
    assert isinstance(await decide(pool, tokenizer), Disaggregate)
    tokenizer.tokens = 999
    assert await decide(pool, tokenizer) == Direct(reason=Reason.BELOW_THRESHOLD)


async def test_far_below_is_not_tokenized(pool: Pool, tokenizer: Tokenizer) -> None:
    routing = Routing(threshold=1000, estimator_band=4.0)
    assert await decide(pool, tokenizer, routing, prompt="x" * 999) == Direct(reason=Reason.BELOW_THRESHOLD)
    assert tokenizer.calls == 0
    await decide(pool, tokenizer, routing, prompt="x" * 1000)
    assert tokenizer.calls == 1


async def test_prompt_of_ids_is_counted_without_a_tokenizer(pool: Pool, tokenizer: Tokenizer) -> None:
    assert await decide(pool, tokenizer, prompt=[1] * 999) == Direct(reason=Reason.BELOW_THRESHOLD)
    assert tokenizer.calls == 0
    assert isinstance(await decide(pool, tokenizer, prompt=[1] * 1000), Disaggregate)


async def test_chat_is_as_long_as_its_messages_whatever_its_prompt_says(
    pool: Pool, tokenizer: Tokenizer
) -> None:
    messages = [{"role": "user", "content": "x"}]
    decision = await decide(pool, tokenizer, messages=messages, prompt=[1] * 5000)
    assert decision == Direct(reason=Reason.BELOW_THRESHOLD)


async def test_scripts_with_a_token_per_character_are_within_the_band(
    pool: Pool, tokenizer: Tokenizer
) -> None:
    tokenizer.tokens = 1000
    assert isinstance(await decide(pool, tokenizer, prompt="\u6c34" * 1000), Disaggregate)


async def test_short_request_is_below_the_threshold_whatever_else_it_wants(
    pool: Pool, tokenizer: Tokenizer
) -> None:
    assert await decide(pool, tokenizer, prompt="x", logprobs=1) == Direct(reason=Reason.BELOW_THRESHOLD)
    assert await decide(pool, tokenizer, logprobs=1) == Direct(reason=Reason.LOGPROBS)


async def test_characters_decide_alone(pool: Pool, tokenizer: Tokenizer) -> None:
    routing = Routing(threshold=1000, estimator=Estimator.CHARACTERS)
    tokenizer.tokens = 300
    assert isinstance(await decide(pool, tokenizer, routing, prompt="x" * 4000), Disaggregate)
    assert await decide(pool, tokenizer, routing, prompt="x" * 3999) == Direct(reason=Reason.BELOW_THRESHOLD)
    tokenizer.tokens = 255
    assert await decide(pool, tokenizer, routing, prompt="x" * 4000) == Direct(
        reason=Reason.SHORTER_THAN_CHUNK
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"max_tokens": 11_385}, Reason.EXCEEDS_CONTEXT),
        ({"max_tokens": 11_384}, None),
        ({"model": "other"}, Reason.MODEL_NOT_ON_BOTH_ROLES),
        ({"model": None}, None),
        ({"model": "adapter"}, None),
    ],
)
async def test_context_and_model(
    pool: Pool, tokenizer: Tokenizer, fields: dict[str, Any], reason: Reason | None
) -> None:
    decision = await decide(pool, tokenizer, **fields)
    assert decision == Direct(reason=reason) if reason else isinstance(decision, Disaggregate)


async def test_model_that_only_one_role_serves_is_decoded_directly(pool: Pool, tokenizer: Tokenizer) -> None:
    for worker in pool.workers(Role.PREFILL):
        pool.passed(worker, {"other": 100_000}, 0)
    for model in ("m", "other", None):
        assert await decide(pool, tokenizer, model=model) == Direct(reason=Reason.MODEL_NOT_ON_BOTH_ROLES)


async def test_each_model_has_its_own_context(pool: Pool, tokenizer: Tokenizer) -> None:
    tokenizer.max_model_len = 0
    for worker in (*pool.workers(Role.DECODE), *pool.workers(Role.PREFILL)):
        pool.passed(worker, {"m": 80_000, "short": 6000}, 0)
    decision = await decide(pool, tokenizer, model="short")
    assert isinstance(decision, Disaggregate)
    assert decision.max_model_len == 6000


@pytest.mark.parametrize(("tokens", "reason"), [(16382, None), (16383, Reason.EXCEEDS_CONTEXT)])
async def test_answer_without_a_limit_needs_room_for_two_tokens(
    pool: Pool, tokenizer: Tokenizer, tokens: int, reason: Reason | None
) -> None:
    tokenizer.tokens = tokens
    messages = [{"role": "user", "content": "x" * 60_000}]
    decision = await decide(pool, tokenizer, messages=messages, prompt=None)
    assert decision == Direct(reason=reason) if reason else isinstance(decision, Disaggregate)


async def test_beside_another_router_nothing_is_handed_over_through_lmcache(
    pool: Pool, tokenizer: Tokenizer
) -> None:
    # a Service that has not been read yet may list another router
    watched = DiscoveryPolicy(router_service="router")
    assert await decide(pool, tokenizer, None, watched) == Direct(reason=Reason.OTHER_ROUTER)
    # NIXL has neither books nor notifications that two routers could share
    nixl = Routing(threshold=1000, transfer=Transfer.NIXL)
    assert isinstance(await decide(pool, tokenizer, nixl, watched), Disaggregate)


@pytest.mark.parametrize(
    ("routing", "prompt", "tokens"),
    [
        (Routing(threshold=1000), "x" * 400, 100),
        (Routing(threshold=1000), "x" * 20_000, 5000),
        (Routing(threshold=1000, transfer=Transfer.NIXL), "x" * 80_000, 20_000),
    ],
    ids=["estimated and short", "counted", "estimated and long"],
)
async def test_length_of_every_prompt_is_counted_once(
    pool: Pool, tokenizer: Tokenizer, routing: Routing, prompt: str, tokens: int
) -> None:
    metrics = Metrics()
    await decide(pool, tokenizer, routing, None, metrics, prompt=prompt)
    assert f"dpd_router_prompt_tokens_sum {float(tokens)}".encode() in metrics.render()
    assert b"dpd_router_prompt_tokens_count 1.0" in metrics.render()


async def test_unlimited_chat_gets_what_fits(pool: Pool, tokenizer: Tokenizer) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "x" * 20_000}]}]
    decision = await decide(pool, tokenizer, messages=messages, prompt=None)
    assert isinstance(decision, Disaggregate)
    assert decision.max_tokens == 16384 - 5000


async def test_length_of_the_context_comes_from_the_models_where_the_tokenizer_does_not_know(
    pool: Pool, tokenizer: Tokenizer
) -> None:
    tokenizer.max_model_len = 0
    for model in ("m", "adapter", None):
        decision = await decide(pool, tokenizer, model=model)
        assert isinstance(decision, Disaggregate)
        assert decision.max_model_len == 80_000
    for worker in (*pool.workers(Role.DECODE), *pool.workers(Role.PREFILL)):
        pool.passed(worker, {"m": 0}, 0)
    assert await decide(pool, tokenizer) == Direct(reason=Reason.CONTEXT_UNKNOWN)


@pytest.mark.parametrize(
    ("rejected", "reason"), [(True, Reason.TOKENIZE_REJECTED), (False, Reason.TOKENIZE_FAILED)]
)
async def test_prompt_that_cannot_be_tokenized(
    pool: Pool, tokenizer: Tokenizer, rejected: bool, reason: Reason
) -> None:
    tokenizer.error = TokenizeError(rejected=rejected)
    assert await decide(pool, tokenizer) == Direct(reason=reason)


async def test_no_prefiller_and_no_decoder(pool: Pool, tokenizer: Tokenizer) -> None:
    pool.refused(pool.workers(Role.PREFILL)[0])
    assert await decide(pool, tokenizer) == Direct(reason=Reason.NO_PREFILLER)
    for decoder in pool.workers(Role.DECODE):
        pool.refused(decoder)
    assert await decide(pool, tokenizer) == Direct(reason=Reason.NO_DECODER)


async def test_never_and_always(pool: Pool, tokenizer: Tokenizer) -> None:
    assert await decide(pool, tokenizer, Routing(threshold=None)) == Direct(reason=Reason.THRESHOLD_NEVER)
    assert isinstance(await decide(pool, tokenizer, Routing(threshold=0), prompt=[1] * 256), Disaggregate)


async def test_nixl_tokenizes_only_within_the_band(pool: Pool, tokenizer: Tokenizer) -> None:
    routing = Routing(threshold=1000, transfer=Transfer.NIXL, estimator_band=2.0)
    decision = await decide(pool, tokenizer, routing, prompt="x" * 8000)
    assert isinstance(decision, Disaggregate)
    assert (decision.tokens, decision.ids, decision.max_model_len, tokenizer.calls) == (2000, (), 0, 0)
    await decide(pool, tokenizer, routing, prompt="x" * 7996)
    assert tokenizer.calls == 1
    short = Routing(threshold=0, transfer=Transfer.NIXL)
    assert await decide(pool, tokenizer, short, prompt="x" * 1020) == Direct(reason=Reason.SHORTER_THAN_CHUNK)
    assert isinstance(await decide(pool, tokenizer, short, prompt="x" * 1024), Disaggregate)


def test_sizes_of_text() -> None:
    def sizes(kind: Kind, **body: Any) -> tuple[int, int]:
        return prompt_text_sizes(Generation(kind=kind, request_id="r", body=body, raw=b"", headers={}))

    assert sizes(Kind.COMPLETION, prompt="a\u6c34") == (2, 4)
    assert sizes(Kind.COMPLETION, prompt=None) == (0, 0)
    messages = [
        {"content": "ab"},
        {"content": [{"type": "text", "text": "c"}, {"type": "image_url"}, 3]},
        4,
        {},
    ]
    assert sizes(Kind.CHAT, messages=messages) == (3, 3)
    assert sizes(Kind.CHAT, messages=None) == (0, 0)


def test_prefixes_for_affinity() -> None:
    assert affinity_prefix(Kind.COMPLETION, {"prompt": "abcdef"}, 3) == b"abc"
    assert affinity_prefix(Kind.COMPLETION, {"prompt": [1, 2, 3]}, 100) == b"[1,2,3]"
    messages = [{"content": "ab"}, {"content": "cd"}, {"content": "ef"}]
    assert affinity_prefix(Kind.CHAT, {"messages": messages}, 3) == b"abc"
    assert affinity_prefix(Kind.CHAT, {"messages": messages}, 100) == b"abcdef"


async def test_file_tokenizer_knows_half_characters(tmp_path: Path) -> None:
    vocabulary = shared_vocabulary()
    path = tmp_path / "tokenizer.json"
    vocabulary.tokenizer.save(str(path))
    tokenizer = FileTokenizer(path)
    ids = await tokenizer.encode("ba \u6c34", add_special_tokens=False)
    assert ids == vocabulary.encode("ba \u6c34", add_special_tokens=False)
    assert tokenizer.text_of(ids, skip_special_tokens=True) == "ba \u6c34"
    assert tokenizer.ends_within_character(ids[:-1], skip_special_tokens=True)
    assert not tokenizer.ends_within_character(ids, skip_special_tokens=True)
