"""The simulated engines lose and free buffer chunks exactly as the measured ones do."""

import asyncio
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web

from dpd_simulator import (
    NOTIFICATION_PORT,
    ConstantStepTimes,
    EngineConfig,
    Fault,
    FaultKind,
    LMCacheConfig,
    Role,
    SimulatedCluster,
)
from tests.router.simulator.conftest import HeldClock, Hub, HubFactory, cached_tokens, ids

QUICK = LMCacheConfig(allocation_timeout_seconds=0.2)
LEGACY = LMCacheConfig(version="0.4.3")


def failed_transfers(hub: Hub) -> int:
    """Transfers of the first prefiller that were given up, and of which no notification comes."""
    (failed,) = hub.cluster.prefillers[0].engine.state()["connector"]["failed_transfers"]
    return int(failed)


async def is_notified(hub: Hub, request_id: str) -> bool:
    """Wait until a transfer was notified, or the first of all was given up; return whether it was notified."""
    await hub.until(lambda: request_id in hub.notified or failed_transfers(hub) > 0)
    return request_id in hub.notified


class NaiveProxy:
    """The obvious proxy: prefill, wait for the notification, send the same prompt to the decoder."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.served = 0
        self.waited_in_vain = asyncio.Event()

    async def complete(self, request: web.Request) -> web.Response:
        prompt = (await request.json())["prompt"]
        request_id = f"naive-{self.served}"
        await self.hub.prefill(prompt, request_id)
        if not await is_notified(self.hub, request_id):
            self.waited_in_vain.set()
            return web.json_response({"error": "no notification"}, status=504)
        answer = await self.hub.decode(prompt)
        self.served += 1
        return web.json_response(answer)


async def test_a_proxy_that_forwards_the_same_prompt_dies_after_87_requests(hub_factory: HubFactory) -> None:
    """Measured: 1 GiB is 102 chunks, a 4,096-token prompt takes 16, one stays: 102 - 16 + 1."""
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, lmcache=QUICK))
    proxy = NaiveProxy(hub)
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/completions", proxy.complete)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, hub.cluster.router_host, 8081).start()
        url = f"http://{hub.cluster.router_host}:8081/v1/completions"
        for number in range(200):
            async with hub.session.post(url, json={"prompt": ids(4096, number)}) as response:
                if response.status != 200:
                    break
    finally:
        await runner.cleanup()
    assert proxy.served == 87
    assert proxy.waited_in_vain.is_set()
    # what the last one was given before it was given up is taken back
    await hub.until(lambda: hub.cluster.decoders[0].used_chunks == (87,))


@pytest.mark.parametrize("tokens", [4096, 1000])
@pytest.mark.parametrize("lmcache", [QUICK, LEGACY], ids=["0.5.3", "0.4.3"])
async def test_continuing_from_the_first_token_leaves_nothing_behind(
    hub_factory: HubFactory, tokens: int, lmcache: LMCacheConfig
) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, lmcache=lmcache))
    # one chunk left behind by each would fill the buffer
    for number in range(lmcache.total_chunks + 1):
        prompt = ids(tokens, number)
        first = await hub.prefill(prompt, f"c{number}", tag=f"c{number}")
        assert await hub.wait_notified(f"c{number}")
        answer = await hub.decode([*prompt, first["kv_transfer_params"]["first_tok"]], tag=f"c{number}")
        assert cached_tokens(answer) == tokens
    assert hub.cluster.decoders[0].used_chunks == (0,)


async def test_abandoned_handoffs_fill_the_buffer_and_draining_them_frees_it(hub_factory: HubFactory) -> None:
    """The order of the measured run: eight chunks had leaked before five abandoned prompts filled 102 chunks."""
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, lmcache=QUICK))
    for number in range(8):
        await hub.prefill(ids(512, number), f"w{number}", tag=f"w{number}")
        assert await hub.wait_notified(f"w{number}")
        await hub.decode(ids(512, number), tag=f"w{number}")
    assert hub.cluster.decoders[0].used_chunks == (8,)

    abandoned = 0
    while True:
        await hub.prefill(ids(4096, 100 + abandoned), f"l{abandoned}", tag=f"L{abandoned}")
        if not await is_notified(hub, f"l{abandoned}"):
            break
        abandoned += 1
    assert abandoned == 5
    (decoder,) = hub.cluster.decoders
    await hub.until(lambda: (decoder.used_chunks, decoder.reserved_chunks) == ((88,), (0,)))

    for number in range(5):
        await hub.decode([*ids(4096, 100 + number), 300], tag=f"L{number}")
    assert hub.cluster.decoders[0].used_chunks == (8,)
    await hub.prefill(ids(4096, 301), "after", tag="B")
    assert await hub.wait_notified("after")


async def test_an_empty_buffer_takes_six_prompts_and_a_failed_prefill_still_answers_200(
    hub_factory: HubFactory,
) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, lmcache=QUICK))
    for number in range(6):
        await hub.prefill(ids(4096, number), f"a{number}", tag=f"a{number}")
        assert await hub.wait_notified(f"a{number}")
    seventh = await hub.prefill(ids(4096, 6), "a6", tag="a6")
    assert seventh["status"] == 200
    assert "first_tok" in seventh["kv_transfer_params"]
    await hub.until(lambda: failed_transfers(hub) == 1)
    assert "a6" not in hub.notified
    await hub.until(lambda: hub.cluster.decoders[0].used_chunks == (96,))


async def test_tags_keep_requests_apart_and_a_hit_happens_once(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, lmcache=QUICK))
    prompt = ids(1024, 1)
    first = await hub.prefill(prompt, "t1", tag="T1")
    assert await hub.wait_notified("t1")
    continued = [*prompt, first["kv_transfer_params"]["first_tok"]]
    assert cached_tokens(await hub.decode(continued, tag="OTHER")) == 0
    assert cached_tokens(await hub.decode(continued)) == 0
    assert cached_tokens(await hub.decode(continued, tag="T1")) == 1024
    assert cached_tokens(await hub.decode(continued, tag="T1")) == 0


async def test_identical_untagged_prompts_share_chunks_until_each_was_read(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, lmcache=QUICK))
    prompt = ids(1024, 1)
    for number in range(3):
        first = await hub.prefill(prompt, f"i{number}")
        assert await hub.wait_notified(f"i{number}")
    assert hub.cluster.decoders[0].used_chunks == (4,)
    continued = [*prompt, first["kv_transfer_params"]["first_tok"]]
    for left in (4, 4, 0):
        assert cached_tokens(await hub.decode(continued)) == 1024
        assert hub.cluster.decoders[0].used_chunks == (left,)


async def test_a_tag_with_an_at_sign_never_notifies(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, lmcache=QUICK))
    assert (await hub.prefill(ids(600, 1), "bad", tag="a@b"))["status"] == 200
    assert not await hub.wait_notified("bad", seconds=0.3)
    await hub.prefill(ids(600, 2), "good", tag="a")
    assert await hub.wait_notified("good")


async def test_a_tag_with_an_at_sign_silences_a_0_4_3_receiver_for_ever(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, lmcache=LEGACY))
    hanging = asyncio.create_task(hub.prefill(ids(600, 1), "bad", tag="a@b"))
    assert not await hub.wait_notified("bad", seconds=0.3)
    assert not hanging.done()  # the forward pass waits without a timeout
    hanging.cancel()


async def test_every_rank_has_its_own_buffer_and_sends_its_own_notification(hub_factory: HubFactory) -> None:
    engine = EngineConfig(tensor_parallel_size=4)
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, engine=engine, lmcache=QUICK))
    prompt = ids(1000, 1)
    first = await hub.prefill(prompt, "tp", tag="tp")
    assert await hub.wait_notified("tp", count=4)
    assert hub.cluster.decoders[0].used_chunks == (4, 4, 4, 4)
    await hub.decode([*prompt, first["kv_transfer_params"]["first_tok"]], tag="tp")
    assert hub.cluster.decoders[0].used_chunks == (0, 0, 0, 0)

    await hub.cluster.add_fault(Fault(kind=FaultKind.NOTIFICATION_LOST, rank=2))
    await hub.prefill(prompt, "one-short", tag="u")
    assert await hub.wait_notified("one-short", count=3)
    assert not await hub.wait_notified("one-short", count=4, seconds=0.3)


@pytest.mark.parametrize("lmcache", [QUICK, LEGACY], ids=["0.5.3", "0.4.3"])
async def test_a_decoder_restarted_at_the_same_address_is_lost_and_another_port_heals_it(
    hub_factory: HubFactory, lmcache: LMCacheConfig
) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=2, decode=1, lmcache=lmcache))
    decoder, prefiller = hub.cluster.decoders[0], hub.cluster.prefillers[0]
    await hub.prefill(ids(600, 1), "before", tag="1")
    assert await hub.wait_notified("before")
    await decoder.restart()
    assert decoder.used_chunks == (0,)

    answer = await hub.prefill(ids(600, 2), "stale", tag="2")
    assert not await hub.wait_notified("stale", seconds=0.5)
    if lmcache is LEGACY:
        assert answer["status"] == 500  # the exception is raised in the forward pass
        await prefiller.wait_dead()
        return
    assert answer["status"] == 200
    # the sender's cancellation frees what it had allocated
    await hub.until(lambda: decoder.used_chunks == (0,))
    await hub.prefill(ids(600, 3), "met-later", tag="3", prefiller=1)
    assert await hub.wait_notified("met-later")

    assert decoder.config.lmcache is not None
    epoch = replace(decoder.config.lmcache, init_ports=(7301,), alloc_ports=(7401,))
    await decoder.restart(replace(decoder.config, lmcache=epoch))
    await hub.prefill(ids(600, 4), "healed", tag="4")
    assert await hub.wait_notified("healed")


async def test_a_prefiller_hangs_on_first_contact_with_a_decoder_that_does_not_listen(
    hub_factory: HubFactory,
) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=2, lmcache=QUICK))
    await hub.cluster.decoders[1].stop()
    hanging = asyncio.create_task(hub.prefill(ids(600, 1), "down", tag="1", decoder=1))
    other = asyncio.create_task(hub.prefill(ids(600, 2), "up", tag="2"))
    assert not await hub.wait_notified("up", seconds=0.5)  # the whole prefiller stands still
    await hub.cluster.decoders[1].restart()
    assert (await hanging)["status"] == 200
    assert (await other)["status"] == 200
    assert await hub.wait_notified("up")


async def test_a_hung_forward_pass_kills_the_engine_after_its_timeout(hub_factory: HubFactory) -> None:
    engine = EngineConfig(execute_model_timeout_seconds=0.3)
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, engine=engine, lmcache=LEGACY))
    await hub.cluster.add_fault(Fault(kind=FaultKind.BUFFER_FULL), hub.cluster.decoders)
    assert (await hub.prefill(ids(600, 1), "full", tag="1"))["status"] == 500
    await hub.cluster.prefillers[0].wait_dead()
    assert not hub.cluster.prefillers[0].running


async def test_a_prompt_without_disagg_spec_kills_a_prefiller(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, lmcache=QUICK))
    prefiller = hub.cluster.prefillers[0]
    answer = await hub.post(prefiller, "/v1/completions", prompt=ids(600, 1), max_tokens=1)
    assert answer["status"] == 500
    await prefiller.wait_dead()
    with pytest.raises(aiohttp.ClientConnectionError):
        await hub.session.get(prefiller.url + "/health")
    await prefiller.restart()
    async with hub.session.get(prefiller.url + "/health") as response:
        assert response.status == 200


async def test_prefix_caching_on_the_decoder_leaks_chunks_that_it_already_has(
    hub_factory: HubFactory,
) -> None:
    engine = EngineConfig(prefix_caching=True)
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, engine=engine, lmcache=QUICK))
    prompt = ids(1024, 1)
    for number, leaked in ((1, 0), (2, 4)):
        first = await hub.prefill(prompt, f"h{number}", tag=f"h{number}")
        assert await hub.wait_notified(f"h{number}")
        await hub.decode([*prompt, first["kv_transfer_params"]["first_tok"]], tag=f"h{number}")
        assert hub.cluster.decoders[0].used_chunks == (leaked,)


async def test_land_then_serve_frees_every_chunk_and_hits_the_prefix_cache(hub_factory: HubFactory) -> None:
    engine = EngineConfig(prefix_caching=True)
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, engine=engine, lmcache=QUICK))
    prompt = ids(1000, 1)
    direct = await hub.decode(prompt, max_tokens=12)
    for number in range(5):
        await hub.prefill(prompt, f"n{number}", tag=f"n{number}")
        assert await hub.wait_notified(f"n{number}")
        landed = await hub.decode([*prompt, 300], tag=f"n{number}", cache_salt=f"salt-{number}")
        assert cached_tokens(landed) == 1000
        served = await hub.decode(prompt, max_tokens=12, cache_salt=f"salt-{number}")
        assert cached_tokens(served) == 992  # 62 full blocks of 16; the last token is always computed
        assert served["choices"][0]["text"] == direct["choices"][0]["text"]
        assert hub.cluster.decoders[0].used_chunks == (0,)


async def test_a_salt_keeps_the_prefix_cache_apart(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(colocated=1, engine=EngineConfig(prefix_caching=True)))
    body = {"prompt": ids(400, 1), "max_tokens": 1}
    engine = hub.cluster.colocated[0]
    hits = [
        cached_tokens(await hub.post(engine, "/v1/completions", **body, cache_salt=salt))
        for salt in ("a", "a", "b")
    ]
    assert hits == [0, 384, 0]


async def test_processes_with_different_hash_seeds_never_hit(hub_factory: HubFactory) -> None:
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, lmcache=replace(QUICK, hash_seed=None)))
    first = await hub.prefill(ids(600, 1), "s", tag="s")
    assert await hub.wait_notified("s")
    answer = await hub.decode([*ids(600, 1), first["kv_transfer_params"]["first_tok"]], tag="s")
    assert cached_tokens(answer) == 0


async def test_reading_chunks_before_they_are_written_changes_the_text(hub_factory: HubFactory) -> None:
    # nobody waits for the end of the transfer
    times = ConstantStepTimes(transfer_seconds_per_token=0.1)
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, lmcache=QUICK, step_times=times))
    prompt = ids(600, 1)
    first = await hub.prefill(prompt, "early", tag="e")
    continued = [*prompt, first["kv_transfer_params"]["first_tok"]]
    decoder = hub.cluster.decoders[0]
    await hub.until(lambda: decoder.used_chunks[0] > 0)
    early = await hub.decode(continued, tag="e", max_tokens=8, ignore_eos=True)
    direct = await hub.decode(continued, max_tokens=8, ignore_eos=True)
    assert cached_tokens(early) == 600
    assert early["choices"][0]["text"] != direct["choices"][0]["text"]


async def test_a_prefill_cancelled_between_its_parts_leaves_a_reservation(hub_factory: HubFactory) -> None:
    engine = EngineConfig(max_num_batched_tokens=1024)
    part_seconds = 1.0
    times = ConstantStepTimes(prefill_seconds_per_token=part_seconds / 1024)
    clock = HeldClock()
    hub = await hub_factory(
        SimulatedCluster(prefill=1, decode=1, engine=engine, lmcache=QUICK, step_times=times, clock=clock)
    )
    (prefiller,), (decoder,) = hub.cluster.prefillers, hub.cluster.decoders
    request = asyncio.create_task(hub.prefill(ids(8192, 1), "gone", tag="gone"))
    await hub.until(lambda: clock.is_awaited)
    clock.passes(part_seconds)
    await hub.until(lambda: decoder.used_chunks[0] > 0 and clock.is_awaited)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await hub.until(lambda: prefiller.engine.metrics.request_success["abort"]._value.get() == 1)
    # the part under way is still computed and sent
    clock.release()
    await hub.until(lambda: prefiller.engine.state()["running"] == 0)
    assert not await hub.wait_notified("gone", seconds=0.5)
    assert decoder.reserved_chunks == (32,)
    await hub.decode([*ids(8192, 1), 300], tag="gone")
    assert decoder.used_chunks == (0,)
    assert decoder.reserved_chunks == (32,)


async def test_a_prompt_larger_than_the_buffer_fails_at_once(hub_factory: HubFactory) -> None:
    small = replace(QUICK, buffer_bytes=3 * QUICK.chunk_bytes, allocation_timeout_seconds=30.0)
    hub = await hub_factory(SimulatedCluster(prefill=1, decode=1, lmcache=small))
    hub.cluster.prefillers[0].config = replace(hub.cluster.prefillers[0].config, lmcache=QUICK)
    await hub.cluster.prefillers[0].restart()
    assert (await hub.prefill(ids(1024, 1), "big", tag="b"))["status"] == 200
    assert not await hub.wait_notified("big", seconds=0.3)
    assert hub.cluster.decoders[0].used_chunks == (0,)


def test_the_reference_buffer_has_102_chunks() -> None:
    assert LMCacheConfig().total_chunks == 102
    assert NOTIFICATION_PORT == 7500


def test_a_receiver_needs_one_port_per_rank() -> None:
    with pytest.raises(IndexError, match="pd_peer_init_port"):
        EngineConfig(role=Role.DECODE, tensor_parallel_size=2, lmcache=LMCacheConfig())
