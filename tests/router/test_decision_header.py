"""Every answer says how its request was served, as far as the router knew when the answer began."""

import pytest

from dpd_router.generation import DECISION_HEADER
from dpd_simulator import EngineConfig, NixlConfig
from tests.router.support import NEVER_SECONDS, prompt, running

LONG = prompt(1000)
SHORT = prompt(100)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("strategy", ["continue", "land"])
async def test_answers_name_their_decision(strategy: str, stream: bool) -> None:
    # one that has ended is found by the request
    flags = ("--strategy", strategy, "--threshold", "256", "--health-interval-seconds", str(NEVER_SECONDS))
    async with running(*flags) as rig:
        handed_over = await rig.complete(LONG, max_tokens=4, stream=stream)
        direct = await rig.complete(SHORT, max_tokens=4, stream=stream)
        assert handed_over.headers[DECISION_HEADER] == "disaggregated"
        assert direct.headers[DECISION_HEADER] == "direct"
        await rig.cluster.prefillers[0].stop()
        fallen_back = await rig.complete(prompt(1001), max_tokens=4, stream=stream)
        assert fallen_back.headers[DECISION_HEADER] == "fallback"


async def test_answers_after_a_pull_name_it() -> None:
    flags = ("--transfer", "nixl", "--threshold", "256")
    async with running(*flags, engine=EngineConfig(nixl=NixlConfig())) as rig:
        answer = await rig.complete(LONG, max_tokens=4)
        assert answer.headers[DECISION_HEADER] == "disaggregated"


async def test_paths_that_are_only_passed_through_have_no_decision() -> None:
    async with running("--passthrough-paths", "/v1/embeddings") as rig:
        answer = await rig.post("/v1/embeddings", model="m", input="text")
        assert DECISION_HEADER not in answer.headers
