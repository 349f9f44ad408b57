"""What other routers were reported to do wrong, and this one does not."""

from prometheus_client.parser import text_string_to_metric_families

from tests.router.support import Rig, prompt, running


async def generated_tokens(rig: Rig, url: str) -> float:
    async with rig.session.get(url + "/metrics") as response:
        page = await response.text()
    return sum(
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "vllm:generation_tokens_total"
    )


async def test_a_prefiller_makes_one_token_whatever_the_client_asks_for() -> None:
    async with running() as rig:
        completion = await rig.complete(prompt(1024), max_tokens=12)
        chat = await rig.post(
            "/v1/chat/completions",
            model="m",
            messages=[{"role": "user", "content": "word " * 1500}],
            max_completion_tokens=12,
            temperature=0,
        )
        assert (completion.status, chat.status) == (200, 200)
        handed_over = rig.metric("dpd_router_decisions_total", decision="disaggregated")
        assert handed_over >= 1
        assert await generated_tokens(rig, rig.cluster.prefillers[0].url) == handed_over
        assert completion.usage is not None
        assert completion.usage["completion_tokens"] == 12


async def test_a_prompt_shorter_than_a_chunk_is_decoded_directly_even_at_threshold_zero() -> None:
    async with running("--threshold", "0") as rig:
        assert (await rig.complete(prompt(200), max_tokens=4)).status == 200
        assert rig.decisions("direct", "shorter_than_chunk") == 1
        assert (await rig.complete(prompt(300), max_tokens=4)).status == 200
        assert rig.metric("dpd_router_decisions_total", decision="disaggregated") == 1
        assert await generated_tokens(rig, rig.cluster.prefillers[0].url) == 1
