"""Transfer `nixl`: the unchanged request, pulled by the decoder."""

import dataclasses
from typing import Any

import pytest

from dpd_router.config import Timeouts, load
from dpd_router.decision import Disaggregate
from dpd_router.eligibility import Limits, Reason
from dpd_router.generation import Generation, Kind
from dpd_router.health import HealthMonitor
from dpd_router.metrics import Metrics
from dpd_router.passthrough import Passthrough
from dpd_router.pool import Pool, Role
from dpd_router.relay import RelayPool
from dpd_router.tasks import Supervisor
from dpd_router.transfer.base import FallbackError, NotTakenError
from dpd_router.transfer.nixl import NixlTransfer, prefill_body
from dpd_router.transfer.prefill import Prefill
from dpd_router.trouble import Trouble
from dpd_router.upstream import Upstream, UpstreamError
from dpd_simulator import EngineConfig, Fault, FaultKind, NixlConfig
from tests.router.support import PATIENT_SECONDS, Rig, prompt, running, until

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
    timeout_seconds = "0.2" if fault.kind is FaultKind.HANG else str(PATIENT_SECONDS)
    async with running(*FLAGS, "--prefill-timeout-seconds", timeout_seconds, engine=NIXL) as rig:
        await rig.cluster.prefillers[0].add_fault(fault)
        await both(rig, "/v1/completions", {"model": "m", "prompt": IDS, "temperature": 0})
        assert rig.decisions("fallback", reason) == 1
        await rig.cluster.prefillers[0].remove_faults()


async def test_decoder_that_dies_before_its_first_byte_is_replaced() -> None:
    async with running(*FLAGS, decode=2, engine=NIXL) as rig:
        await rig.cluster.decoders[0].add_fault(Fault(kind=FaultKind.DIE_ON_REQUEST))
        for _ in range(2):
            await both(rig, "/v1/completions", {"model": "m", "prompt": IDS, "temperature": 0})
            await rig.knows_its_decoders()
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


class Scripted(Upstream):
    """Answers every prefill with one thing."""

    def __init__(self, answer: bytes | UpstreamError) -> None:
        super().__init__(Timeouts())
        self.answer = answer

    async def post(self, *arguments: Any, **options: Any) -> bytes:
        if isinstance(self.answer, UpstreamError):
            raise self.answer
        return self.answer


async def _alone(answer: bytes | UpstreamError, *, prefillers: int = 1) -> tuple[Exception, Metrics]:
    """Serve a request without any decoder; return how it ends."""
    settings = load(["--decoders", "http://d:1", "--prefillers", "http://p:1", *FLAGS], {})
    metrics = Metrics()
    pool = Pool(settings.health, metrics)
    upstream = Scripted(answer)
    health = HealthMonitor(pool, upstream, settings.health, Supervisor())
    trouble = Trouble(pool=pool, health=health, metrics=metrics)
    relays = RelayPool(1.0)
    transfer = NixlTransfer(
        pool=pool, metrics=metrics,
        prefills=Prefill(timeout_seconds=5, pool=pool, upstream=upstream, trouble=trouble, metrics=metrics),
        passthrough=Passthrough(settings=settings, pool=pool, relays=relays, trouble=trouble, metrics=metrics),
    )  # fmt: skip
    pool.on_added.clear()  # nobody checks these workers: they are what the test says
    for number in range(prefillers):
        pool.passed(pool.add(Role.PREFILL, f"http://p:{number + 1}"), {"m": 1000}, 0)
    generation = Generation(kind=Kind.COMPLETION, request_id="r", body={"prompt": IDS}, raw=b"", headers={})
    decision = Disaggregate(ids=(), tokens=1000, limits=Limits(max_tokens=5, min_tokens=0), max_model_len=0)
    nobody: Any = None
    with pytest.raises((NotTakenError, FallbackError)) as ended:
        await transfer.serve(nobody, generation, decision)
    return ended.value, metrics


@pytest.mark.parametrize(
    ("answer", "prefillers", "error", "reason"),
    [
        (b"", 0, NotTakenError, Reason.NO_PREFILLER),
        (b"no json", 1, FallbackError, Reason.PREFILL_MALFORMED),
        (b'{"kv_transfer_params": 3}', 1, FallbackError, Reason.PREFILL_MALFORMED),
        (UpstreamError("status", 400), 2, FallbackError, Reason.PREFILL_REJECTED),
        (UpstreamError("unreachable"), 3, FallbackError, Reason.PREFILL_UNREACHABLE),
        (b'{"kv_transfer_params": {"remote_host": "p"}}', 1, FallbackError, Reason.DECODER_GONE),
    ],
)
async def test_how_a_prefill_can_fail(
    answer: bytes | UpstreamError, prefillers: int, error: type[Exception], reason: Reason
) -> None:
    ended, metrics = await _alone(answer, prefillers=prefillers)
    assert isinstance(ended, (NotTakenError, FallbackError))
    assert (type(ended), ended.reason) == (error, reason)
    malformed = metrics.registry.get_sample_value(
        "dpd_router_upstream_errors_total", {"role": "prefill", "kind": "malformed"}
    )
    assert (malformed or 0) == (reason is Reason.PREFILL_MALFORMED)


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
