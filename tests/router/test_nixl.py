"""Transfer `nixl`: the unchanged request, pulled by the decoder."""

import dataclasses
from typing import Any

import pytest

from dpd_router.eligibility import Reason
from dpd_router.generation import Generation, Kind
from dpd_router.transfer.nixl import prefill_body
from dpd_simulator import EngineConfig, Fault, FaultKind, NixlConfig
from tests.router.support import Rig, prompt, running, until

NIXL = EngineConfig(nixl=NixlConfig())
FLAGS = ("--transfer", "nixl", "--threshold", "256")
IDS = prompt(1000)


async def both(rig: Rig, path: str, fields: dict[str, Any]) -> None:
    routed = await rig.post(path, fields)
    direct = await rig.post(path, fields, base=rig.cluster.decoders[-1].url)
    assert routed.status == direct.status == 200
    assert (routed.text, routed.finish, routed.usage) == (direct.text, direct.finish, direct.usage)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0},
        {"temperature": 0.8, "seed": 3, "presence_penalty": 0.5},
        {"temperature": 0, "stop": ["ba"], "min_tokens": 2},
    ],
)
async def test_answers_equal_direct_answers(stream: bool, fields: dict[str, Any]) -> None:
    async with running(*FLAGS, prefill=2, decode=2, engine=NIXL) as rig:
        await both(
            rig, "/v1/completions", {"model": "m", "prompt": IDS, "max_tokens": 8, "stream": stream, **fields}
        )
        messages = [{"role": "user", "content": "ba be bi " * 300}]
        await both(
            rig,
            "/v1/chat/completions",
            {"model": "m", "messages": messages, "max_tokens": 8, "stream": stream, **fields},
        )
        assert rig.decisions("disaggregated", Reason.THRESHOLD) == 2
        assert sum(engine.requests.get("/v1/completions", 0) for engine in rig.cluster.prefillers) == 1
        assert sum(engine.requests.get("/v1/chat/completions", 0) for engine in rig.cluster.prefillers) == 1


async def test_prefiller_that_refuses_is_replaced() -> None:
    async with running(*FLAGS, "--health-interval-seconds", "60", prefill=2, engine=NIXL) as rig:
        await rig.cluster.prefillers[0].stop()
        for _ in range(2):
            await both(rig, "/v1/completions", {"model": "m", "prompt": IDS, "temperature": 0})
        assert rig.decisions("disaggregated", Reason.THRESHOLD) == 2
        assert rig.metric("dpd_router_retries_total", role="prefill") == 1
        await rig.cluster.prefillers[1].stop()
        await both(rig, "/v1/completions", {"model": "m", "prompt": IDS, "temperature": 0})
        assert rig.decisions("fallback", Reason.PREFILL_UNREACHABLE) == 1
        await both(rig, "/v1/completions", {"model": "m", "prompt": IDS, "temperature": 0})
        assert rig.decisions("direct", Reason.NO_PREFILLER) == 1


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(kind=FaultKind.ERROR_STATUS, status=503), Reason.PREFILL_FAILED),
        (Fault(kind=FaultKind.HANG), Reason.PREFILL_TIMEOUT),
        (Fault(kind=FaultKind.DIE_ON_REQUEST), Reason.PREFILL_FAILED),
    ],
)
async def test_failed_prefill_falls_back(fault: Fault, reason: Reason) -> None:
    async with running(*FLAGS, "--prefill-timeout-seconds", "0.2", engine=NIXL) as rig:
        await rig.cluster.prefillers[0].add_fault(fault)
        await both(rig, "/v1/completions", {"model": "m", "prompt": IDS, "temperature": 0})
        assert rig.decisions("fallback", reason) == 1
        await rig.cluster.prefillers[0].remove_faults()


async def test_decoder_that_dies_before_its_first_byte_is_replaced() -> None:
    async with running(*FLAGS, decode=2, engine=NIXL) as rig:
        await rig.cluster.decoders[0].add_fault(Fault(kind=FaultKind.DIE_ON_REQUEST))
        for _ in range(2):
            await both(rig, "/v1/completions", {"model": "m", "prompt": IDS, "temperature": 0})
        assert rig.decisions("fallback", Reason.DECODE_FAILED) == 1


async def test_answer_without_parameters_falls_back() -> None:
    # prefillers without a connector answer without transfer parameters
    async with running(*FLAGS, engine=NIXL) as rig:
        prefiller = rig.cluster.prefillers[0]
        assert prefiller.config.nixl is not None
        await prefiller.stop()
        await until(lambda: not rig.router.pool.usable_prefillers())
        await prefiller.restart(dataclasses.replace(prefiller.config, nixl=None))
        await until(lambda: bool(rig.router.pool.usable_prefillers()))
        await both(rig, "/v1/completions", {"model": "m", "prompt": IDS, "temperature": 0})
        assert rig.metric("dpd_router_handoff_failures_total", reason=Reason.REMOTE_BLOCKS_MISSING) == 1
        assert rig.decisions("fallback", Reason.REMOTE_BLOCKS_MISSING) == 1


def test_prefill_asks_for_one_token_under_both_names() -> None:
    body = {
        "model": "m", "messages": [], "max_tokens": 50, "max_completion_tokens": 60, "min_tokens": 9, "stream": True,
        "stream_options": {"include_usage": True}, "tools": [1],
    }  # fmt: skip
    generation = Generation(kind=Kind.CHAT, request_id="r", body=body, raw=b"", headers={})
    sent = prefill_body(generation)
    assert (sent["max_tokens"], sent["max_completion_tokens"], sent["stream"]) == (1, 1, False)
    assert sent.keys() & {"stream_options", "min_tokens"} == set()
    assert (sent["tools"], sent["kv_transfer_params"]["do_remote_decode"]) == ([1], True)
    assert body["max_tokens"] == 50
