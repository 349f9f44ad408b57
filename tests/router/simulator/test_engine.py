"""Steps, batches, room in the KV cache, simulated time, and faults."""

import asyncio
import dataclasses
import json
import time
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dpd_simulator import (
    Clock,
    ConstantStepTimes,
    EngineConfig,
    Fault,
    FaultKind,
    NixlConfig,
    SimulatedCluster,
    SimulatedEngine,
    StepShape,
    TabulatedStepTimes,
)
from tests.router.simulator.conftest import HeldClock, HubFactory, cached_tokens, ids

COMPLETIONS = "/v1/completions"

TURNS_OF_AN_ANSWER = 200
"""Of the event loop: ten times what an answer takes to its client."""


class Recorder:
    """Step times that remember every step."""

    def __init__(self) -> None:
        self.steps: list[StepShape] = []

    def step_seconds(self, shape: StepShape) -> float:
        self.steps.append(shape)
        return 0.0

    def store_seconds(self, tokens: int) -> float:
        return 0.0

    def transfer_seconds(self, tokens: int) -> float:
        return 0.0

    def retrieve_seconds(self, tokens: int) -> float:
        return 0.0


async def test_a_long_prompt_is_prefilled_in_parts_and_then_decoded(hub_factory: HubFactory) -> None:
    recorder = Recorder()
    engine = EngineConfig(max_num_batched_tokens=512)
    hub = await hub_factory(SimulatedCluster(colocated=1, engine=engine, step_times=recorder))
    await hub.post(hub.cluster.colocated[0], COMPLETIONS, prompt=ids(1200, 1), max_tokens=3, ignore_eos=True)
    assert [step.prefill_tokens for step in recorder.steps] == [512, 512, 176, 0, 0]
    assert [step.prefill_context_tokens for step in recorder.steps] == [0, 512 * 512, 176 * 1024, 0, 0]
    assert sum(step.prefill_pairs for step in recorder.steps) == 1200 * 1201 // 2
    assert [step.decode_context_tokens for step in recorder.steps[3:]] == [1200, 1201]


@pytest.mark.parametrize("held", [True, False])
async def test_answers_of_a_busy_engine_may_wait_for_its_next_step(
    held: bool, hub_factory: HubFactory
) -> None:
    engine = EngineConfig(max_num_batched_tokens=512, answers_wait_for_next_step=held)
    times = ConstantStepTimes(prefill_seconds_per_token=1.0 / 512)
    clock = HeldClock()
    hub = await hub_factory(SimulatedCluster(colocated=1, engine=engine, step_times=times, clock=clock))
    target = hub.cluster.colocated[0]

    def ask(seed: int) -> "asyncio.Task[object]":
        return asyncio.create_task(hub.post(target, COMPLETIONS, prompt=ids(512, seed), max_tokens=1))

    # two prompts of a step each: the first answer comes after its own step, or with the second one
    tasks = [ask(1), ask(2)]
    await hub.until(lambda: clock.is_awaited and target.requests.get(COMPLETIONS) == 2)
    clock.passes(1.0)
    await hub.until(lambda: clock.is_awaited and _ended_steps(target) == 1)
    if held:
        for _ in range(TURNS_OF_AN_ANSWER):
            await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
    else:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert [task.done() for task in tasks].count(True) == 1
    clock.passes(1.0)
    await asyncio.wait(tasks)
    assert _ended_steps(target) == 2


def _ended_steps(engine: SimulatedEngine) -> float:
    families = text_string_to_metric_families(engine.engine.metrics.render().decode())
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "vllm:iteration_tokens_total_count"
    )


async def test_max_num_seqs_bounds_the_batch_and_the_others_wait(hub_factory: HubFactory) -> None:
    recorder = Recorder()
    engine = EngineConfig(max_num_seqs=4)
    hub = await hub_factory(SimulatedCluster(colocated=1, engine=engine, step_times=recorder))
    await asyncio.gather(
        *(
            hub.post(hub.cluster.colocated[0], COMPLETIONS, prompt=ids(20, n), max_tokens=50, ignore_eos=True)
            for n in range(12)
        )
    )
    assert max(step.decode_sequences for step in recorder.steps) == 4


async def test_a_full_kv_cache_preempts_and_the_text_stays_the_same(hub_factory: HubFactory) -> None:
    async def texts(kv_cache_tokens: int) -> tuple[list[str], float]:
        engine = EngineConfig(kv_cache_tokens=kv_cache_tokens)
        hub = await hub_factory(SimulatedCluster(colocated=1, engine=engine))
        answers = await asyncio.gather(
            *(
                hub.post(
                    hub.cluster.colocated[0],
                    COMPLETIONS,
                    prompt=ids(40, n),
                    max_tokens=60,
                    ignore_eos=True,
                    temperature=0,
                )
                for n in range(6)
            )
        )
        metrics = hub.cluster.colocated[0].engine.metrics
        return [answer["choices"][0]["text"] for answer in answers], metrics.preemptions._value.get()

    roomy, none = await texts(100_000)
    tight, some = await texts(320)
    assert tight == roomy
    assert none == 0
    assert some > 0


@dataclasses.dataclass(frozen=True)
class LateClock(Clock):
    """Time that passes only where somebody sleeps, and a little more of it than was asked for."""

    passed: list[float] = dataclasses.field(default_factory=lambda: [0.0])

    def now(self) -> float:
        return self.passed[0]

    async def sleep(self, seconds: float) -> None:
        self.passed[0] += max(0.0, seconds) + LATE_SECONDS
        await asyncio.sleep(0)


LATE_SECONDS = 0.004


async def test_steps_follow_each_other_without_gaps_although_the_host_is_late(
    hub_factory: HubFactory,
) -> None:
    times = ConstantStepTimes(prefill_seconds_per_token=0.001, decode_step_seconds=0.02)
    clock = LateClock()
    hub = await hub_factory(SimulatedCluster(colocated=1, step_times=times, clock=clock))
    await hub.post(hub.cluster.colocated[0], COMPLETIONS, prompt=ids(500, 1), max_tokens=101, ignore_eos=True)
    # late once, not a hundred times
    assert clock.now() == pytest.approx(0.5 + 100 * 0.02 + LATE_SECONDS)


async def test_compressed_time_passes_faster_by_its_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    clock = Clock(compression=10.0)
    before, real = clock.now(), time.monotonic()
    with monkeypatch.context() as patched:
        patched.setattr("dpd_simulator.clock.asyncio.sleep", sleep)
        await clock.sleep(5.0)
        patched.setattr("dpd_simulator.clock.time.monotonic", lambda: 3.0)
        await clock.sleep_until(35.0)
        await clock.sleep_until(25.0)
    assert slept == [0.5, pytest.approx(0.5), 0.0]
    assert before <= 10.0 * real <= clock.now()


def test_tables_interpolate_and_charge_the_weights_once() -> None:
    table = TabulatedStepTimes(
        prefill_points=((0, 0.01), (1000, 0.03)),
        decode_batches=(1, 64),
        decode_contexts=(0, 4096),
        decode_seconds=((0.007, 0.008), (0.009, 0.02)),
    )
    assert table.step_seconds(StepShape(prefill_tokens=500)) == pytest.approx(0.02)
    alone = table.step_seconds(StepShape(decode_sequences=64, decode_context_tokens=64 * 4096))
    assert alone == pytest.approx(0.02)
    mixed = table.step_seconds(
        StepShape(prefill_tokens=500, decode_sequences=64, decode_context_tokens=64 * 4096)
    )
    assert mixed == pytest.approx(0.02 + 0.02 - 0.007)


def test_a_table_of_step_times_is_read_from_json(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    path.write_text(
        json.dumps(
            {
                "prefill_points": [[1, 0.01]],
                "decode_batches": [1],
                "decode_contexts": [0],
                "decode_seconds": [[0.5]],
            }
        )
    )
    assert TabulatedStepTimes.from_json(path).step_seconds(StepShape(decode_sequences=1)) == 0.5
    path.write_text("{}")
    with pytest.raises(ValueError, match="not a table"):
        TabulatedStepTimes.from_json(path)


async def test_a_client_that_leaves_frees_its_sequence(hub_factory: HubFactory) -> None:
    times = ConstantStepTimes(decode_step_seconds=0.005)
    hub = await hub_factory(SimulatedCluster(colocated=1, step_times=times))
    engine = hub.cluster.colocated[0]
    async with hub.session.post(
        engine.url + COMPLETIONS,
        json={"prompt": ids(50, 1), "max_tokens": 5000, "ignore_eos": True, "stream": True},
    ) as response:
        await response.content.readany()
    await hub.until(lambda: engine.engine.state()["running"] == 0)
    assert engine.engine.state()["held_blocks"] == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_after_some_tokens(hub_factory: HubFactory, stream: bool) -> None:
    hub = await hub_factory(SimulatedCluster(colocated=1))
    engine = hub.cluster.colocated[0]
    await engine.add_fault(Fault(kind=FaultKind.ERROR_IN_STREAM, tokens=3, times=1))
    body = {"prompt": ids(50, 1), "max_tokens": 9, "ignore_eos": True}
    if stream:
        events = await hub.stream(engine, COMPLETIONS, **body)
        assert events[-1]["error"]["code"] == 500
    else:
        assert (await hub.post(engine, COMPLETIONS, **body))["status"] == 500
    assert (await hub.post(engine, COMPLETIONS, **body))["status"] == 200


async def test_a_process_that_dies_in_the_middle_resets_its_connections(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(colocated=1))
    engine = hub.cluster.colocated[0]
    await engine.add_fault(Fault(kind=FaultKind.DIE_AFTER_TOKENS, tokens=4, times=1))
    with pytest.raises(aiohttp.ClientError):
        await hub.stream(engine, COMPLETIONS, prompt=ids(50, 1), max_tokens=500, ignore_eos=True)
    await engine.wait_dead()
    await engine.restart()
    answer = await hub.post(engine, COMPLETIONS, prompt=ids(50, 1), max_tokens=5)
    assert answer["status"] == 200


async def test_faults_come_and_go_over_the_admin_route(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(colocated=1))
    engine = hub.cluster.colocated[0]
    fault = [{"kind": "error-status", "status": 503, "times": 1}, {"kind": "hang"}]
    async with hub.session.post(engine.url + "/simulator/faults", json=fault) as response:
        assert response.status == 204
    body = {"prompt": ids(20, 1), "max_tokens": 2}
    assert (await hub.post(engine, COMPLETIONS, **body))["status"] == 503
    hanging = asyncio.create_task(hub.post(engine, COMPLETIONS, **body))
    await hub.until(lambda: engine.engine.state()["waiting"] == 1)
    async with hub.session.delete(engine.url + "/simulator/faults?kind=hang") as response:
        assert response.status == 204
    assert (await hanging)["status"] == 200
    async with hub.session.get(engine.url + "/simulator/state") as response:
        assert (await response.json())["requests"][COMPLETIONS] == 2


async def test_a_closed_port_refuses_until_it_opens_again(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(colocated=1))
    engine = hub.cluster.colocated[0]
    await engine.add_fault(Fault(kind=FaultKind.REFUSE_CONNECTIONS))
    with pytest.raises(aiohttp.ClientConnectorError):
        await hub.session.get(engine.url + "/health")
    await engine.remove_faults(FaultKind.REFUSE_CONNECTIONS)
    async with hub.session.get(engine.url + "/health") as response:
        assert response.status == 200


async def test_notifications_can_be_lost_duplicated_delayed_and_flooded(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1))
    prefiller = hub.cluster.prefillers[0]
    for kind, fault, count in (
        ("lost", Fault(kind=FaultKind.NOTIFICATION_LOST, times=1), 0),
        ("twice", Fault(kind=FaultKind.NOTIFICATION_DUPLICATED, times=1), 2),
        ("late", Fault(kind=FaultKind.NOTIFICATION_DELAYED, seconds=0.2, times=1), 1),
        ("flood", Fault(kind=FaultKind.NOTIFICATION_FLOOD, count=50, times=1), 1),
    ):
        await prefiller.add_fault(fault)
        await hub.prefill(ids(300, 1), kind, tag=kind)
        if not count:
            assert not await hub.wait_notified(kind, seconds=0.3)
            continue
        assert await hub.wait_notified(kind, count=count)
    await hub.until(lambda: sum(name.startswith("unknown") for name in hub.notified) == 50)


async def test_a_failed_transfer_hides_behind_a_200_and_frees_its_chunks(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1))
    await hub.cluster.prefillers[0].add_fault(Fault(kind=FaultKind.TRANSFER_FAILED, times=1))
    assert (await hub.prefill(ids(300, 1), "f", tag="f"))["status"] == 200
    assert not await hub.wait_notified("f", seconds=0.3)
    await hub.until(lambda: hub.cluster.decoders[0].used_chunks == (0,))


async def test_nixl_pulls_the_unchanged_request_with_every_parameter(hub_factory: HubFactory) -> None:
    engine = EngineConfig(nixl=NixlConfig(lease_seconds=3.0))
    clock = HeldClock()
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, engine=engine, clock=clock))
    prefiller, decoder = hub.cluster.prefillers[0], hub.cluster.decoders[0]
    body = {"prompt": ids(700, 1), "temperature": 1.0, "seed": 3, "presence_penalty": 1.0}
    ask = {
        "do_remote_decode": True,
        "do_remote_prefill": False,
        "remote_engine_id": None,
        "remote_block_ids": None,
        "remote_host": None,
        "remote_port": None,
    }
    direct = await hub.post(decoder, COMPLETIONS, **body, max_tokens=20)
    first = await hub.post(prefiller, COMPLETIONS, **body, max_tokens=1, kv_transfer_params=ask)
    answer = await hub.post(
        decoder, COMPLETIONS, **body, max_tokens=20, kv_transfer_params=first["kv_transfer_params"]
    )
    assert answer["choices"][0]["text"] == direct["choices"][0]["text"]
    assert cached_tokens(answer) == 700
    assert prefiller.engine.state()["connector"]["pinned_requests"] == 0

    again = await hub.post(
        decoder, COMPLETIONS, **body, max_tokens=20, kv_transfer_params=first["kv_transfer_params"]
    )
    assert again["status"] == 500  # the blocks were read once and are gone; the policy is to fail

    await hub.post(prefiller, COMPLETIONS, **body, max_tokens=1, kv_transfer_params=ask)
    assert prefiller.engine.state()["connector"]["pinned_requests"] == 1
    clock.passes(2.9)
    assert prefiller.engine.state()["connector"]["pinned_requests"] == 1
    clock.passes(0.2)
    assert prefiller.engine.state()["connector"]["pinned_requests"] == 0
