"""Random sequences of faults, departures and restarts end with nothing in flight and balanced books."""

import asyncio
import dataclasses
import random

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpd_router.config import Strategy
from dpd_simulator import EngineConfig, Fault, FaultKind, SimulatedEngine
from tests.router.support import LIMIT_SECONDS, Rig, prompt, running, until

_FAULTS = st.one_of(
    st.builds(
        Fault,
        kind=st.sampled_from(
            [
                FaultKind.NOTIFICATION_LOST,
                FaultKind.NOTIFICATION_DUPLICATED,
                FaultKind.TRANSFER_FAILED,
                FaultKind.KV_MISS,
                FaultKind.ERROR_STATUS,
                FaultKind.ERROR_IN_STREAM,
            ]
        ),
        times=st.integers(1, 2),
        tokens=st.integers(1, 3),
        status=st.sampled_from([400, 500, 503]),
    ),
    st.just(Fault(kind=FaultKind.NOTIFICATION_DELAYED, seconds=0.05, times=2)),
    st.just(Fault(kind=FaultKind.NOTIFICATION_FLOOD, count=50, times=1)),
    st.just(Fault(kind=FaultKind.DELAY, seconds=0.05, times=2)),
    st.just(Fault(kind=FaultKind.HANG)),
    st.just(Fault(kind=FaultKind.BUFFER_FULL, chunks=96)),
)


@dataclasses.dataclass(frozen=True)
class Send:
    """Send a request; the client leaves after so many reads, or stays."""

    tokens: int
    stream: bool
    leaves_after: int | None


@dataclasses.dataclass(frozen=True)
class Break:
    """Switch on a fault at some engine."""

    engine: int
    fault: Fault


@dataclasses.dataclass(frozen=True)
class Mend:
    """Switch off every fault."""


@dataclasses.dataclass(frozen=True)
class Restart:
    """Kill an engine and start it again, a decoder at its next port epoch."""

    engine: int


_STEPS = st.lists(
    st.one_of(
        st.builds(
            Send,
            tokens=st.integers(100, 2500),
            stream=st.booleans(),
            leaves_after=st.one_of(st.none(), st.integers(0, 4)),
        ),
        st.builds(Break, engine=st.integers(0, 3), fault=_FAULTS),
        st.just(Mend()),
        st.builds(Restart, engine=st.integers(0, 3)),
    ),
    min_size=3,
    max_size=14,
)


async def _send(rig: Rig, step: Send, seed: int) -> None:
    body = {"model": "m", "prompt": prompt(step.tokens, seed), "max_tokens": 5, "stream": step.stream}
    try:
        async with rig.session.post(rig.base + "/v1/completions", json=body) as response:
            if step.leaves_after is None:
                await response.read()
                return
            for _ in range(step.leaves_after):
                await response.content.readany()
    except aiohttp.ClientError:
        return


async def _restart(engine: SimulatedEngine) -> None:
    lmcache = engine.config.lmcache
    config = engine.config
    if lmcache is not None and engine.config.role == "decode":
        epoch = engine.restarts + 1
        shift = epoch % 8
        config = dataclasses.replace(
            config,
            lmcache=dataclasses.replace(lmcache, init_ports=(7300 + shift,), alloc_ports=(7400 + shift,)),
            served_model_names=("m", f"dpd-epoch-{epoch}"),
        )
    await engine.restart(config)


async def _run(strategy: Strategy, steps: list[object]) -> None:
    flags = (
        "--strategy", strategy,
        "--notification-timeout-seconds", "0.15",
        "--prefill-timeout-seconds", "0.3",
        "--drain-grace-seconds", "0.3",
        "--drain-timeout-seconds", "2",
        "--drain-attempts", "2",
        "--connect-timeout-seconds", "0.5",
        "--idle-timeout-seconds", "1",
        "--buffer-wait-seconds", "0.05",
    )  # fmt: skip
    engine = EngineConfig(prefix_caching=strategy is Strategy.LAND)
    async with running(*flags, prefill=2, decode=2, engine=engine) as rig:
        engines = list(rig.cluster.engines)
        requests: list[asyncio.Task[None]] = []
        for seed, step in enumerate(steps):
            match step:
                case Send():
                    requests.append(asyncio.create_task(_send(rig, step, seed)))
                case Break(engine=index, fault=fault):
                    await engines[index].add_fault(fault)
                case Mend():
                    await rig.cluster.remove_faults()
                case Restart(engine=index):
                    await _restart(engines[index])
            rig.router.books.check()
            # lets what was begun get to some stage
            for _ in range(random.Random(seed).randrange(40)):
                await asyncio.sleep(0)
        await rig.cluster.remove_faults()
        async with asyncio.timeout(LIMIT_SECONDS):
            await asyncio.gather(*requests)
        await rig.settled()
        assert rig.metric("dpd_router_handoffs_open") == 0
        await until(lambda: rig.metric("dpd_router_inflight_requests") == 0)
        await until(lambda: rig.metric("dpd_router_worker_requests") == 0)
        assert rig.metric("dpd_router_queued_bytes") == 0


@pytest.mark.slow
@pytest.mark.parametrize("strategy", list(Strategy))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(steps=_STEPS)
def test_nothing_stays_in_flight_and_the_books_balance(strategy: Strategy, steps: list[object]) -> None:
    asyncio.run(_run_and_close(strategy, steps))


async def _run_and_close(strategy: Strategy, steps: list[object]) -> None:
    await _run(strategy, steps)
    # the event loop closes with the example: connections that were cut end in its next rounds
    for _ in range(10):
        await asyncio.sleep(0)
