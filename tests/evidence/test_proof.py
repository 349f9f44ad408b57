"""The proof against a real router process and simulated workers: the right verdict, and the right cause."""

import asyncio
import contextlib

import pytest

from dpd_simulator import ConstantStepTimes, EngineConfig, FaultKind
from dpd_simulator.config import NixlConfig
from tests.evidence.rig import Setting, beside_its_router, load, running
from tests.evidence.scenarios import SCENARIOS
from tests.router.support import until


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_broken_deployment_is_not_proved_and_its_cause_is_named(name: str) -> None:
    scenario = SCENARIOS[name]
    async with running(scenario.setting) as rig:
        if scenario.inject is not None:
            await scenario.inject(rig)
        others = await load(rig, 8) if name == "prefill queue grows" else []
        result = await rig.prove(**scenario.target)
        # a slow engine would take its time to end
        await rig.cluster.remove_faults()
        for task in others:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*others, return_exceptions=True)
    assert not result.proved
    assert [finding.id for finding in result.findings] == [scenario.finding], "\n".join(result.lines())
    assert scenario.says in result.findings[0].says
    assert result.seconds < rig.target.timeout_seconds + 2


@pytest.mark.parametrize(
    "setting",
    [
        Setting(),
        Setting(
            prefill=2,
            decode=2,
            engine=EngineConfig(tensor_parallel_size=2),
            # so that the prompts are there at the same time, and the router spreads them
            step_times=ConstantStepTimes(prefill_seconds_per_token=0.0003),
        ),
        Setting(router={"strategy": "land"}, engine=EngineConfig(prefix_caching=True)),
    ],
    ids=["1P1D", "2P2D with two ranks", "land"],
)
async def test_a_healthy_deployment_is_proved(setting: Setting) -> None:
    async with running(setting) as rig:
        result = await rig.prove()
    assert result.proved, "\n".join(result.lines())
    assert result.findings == ()
    # among them that a worker got no long prompt: those that come together are spread
    assert result.notes == ()


async def test_a_threshold_just_below_the_context_is_reached_by_measuring_the_words() -> None:
    setting = Setting(router={"threshold": "3000"}, engine=EngineConfig(max_model_len=3600))
    async with running(setting) as rig:
        result = await rig.prove(threshold_tokens=3000)
    assert result.proved, "\n".join(result.lines())


async def test_a_healthy_deployment_with_nixl_connector_is_proved() -> None:
    setting = Setting(engine=EngineConfig(nixl=NixlConfig()), router={"transfer": "nixl"})
    async with running(setting) as rig:
        result = await rig.prove(transfer="nixl", expects_efa=False)
    assert result.proved, "\n".join(result.lines())
    assert result.numbers["transfers made by decoders"] == 1


async def test_workers_that_meet_for_the_first_time_may_take_their_time_once() -> None:
    # `land` needs no text of a first token, so the prompt that meets the fault is handed over in any case
    setting = Setting(router={"strategy": "land"}, engine=EngineConfig(prefix_caching=True))
    async with beside_its_router(setting) as (rig, router):
        await rig.fault(FaultKind.NOTIFICATION_LOST, "prefill", times=1)
        proving = asyncio.create_task(rig.prove())
        (prefiller,) = rig.cluster.prefillers
        await until(lambda: prefiller.faults.active(FaultKind.NOTIFICATION_LOST) is None)
        await router.notification_in_vain()
        result = await proving
    assert result.proved, "\n".join(result.lines())
    assert result.notes == (
        "the very first hand-offs failed (`notification_timeout` 1), and the verdict is about those that came after them",
    )


async def test_a_baseline_is_proved_when_nothing_is_handed_over() -> None:
    async with running(Setting(router={"threshold": "never"})) as rig:
        result = await rig.prove(threshold_tokens=None, prefillers=())
    assert result.proved, "\n".join(result.lines())
    assert result.notes == ("the threshold is `never`: nothing is handed over, and only that was proven",)
