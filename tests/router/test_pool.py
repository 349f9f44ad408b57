from collections.abc import Callable

import pytest

from dpd_router.config import Affinity, HealthPolicy
from dpd_router.health import read_models
from dpd_router.metrics import Metrics
from dpd_router.pairs import Pairs
from dpd_router.pool import Pool, Role, Worker
from tests.router.support import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(clock: Clock) -> Pool:
    return Pool(HealthPolicy(unhealthy_after=2, healthy_after=2, hung_after=2), Metrics(), clock=clock)


def up(pool: Pool, role: Role = Role.DECODE, name: str = "a", epoch: int = 0) -> Worker:
    worker = pool.add(role, f"http://{name}:8000")
    pool.passed(worker, {"m": 100}, epoch)
    return worker


def recorded(calls: list[Callable[[Worker], None]]) -> list[Worker]:
    seen: list[Worker] = []
    calls.append(seen.append)
    return seen


def test_first_good_check_is_enough_and_a_flapping_worker_needs_two(pool: Pool) -> None:
    worker = up(pool)
    usable = [worker.usable]
    for good in (False, False, True, True):
        if good:
            pool.passed(worker, {}, 0)
        else:
            pool.failed(worker, "x")
        usable.append(worker.usable)
    assert usable == [True, True, False, False, True]


def test_refused_connection_takes_effect_at_once_and_means_a_new_process(pool: Pool) -> None:
    worker = up(pool)
    gone = recorded(pool.on_gone)
    pool.refused(worker)
    pool.refused(worker)
    assert (worker.usable, worker.incarnation, gone) == (False, 1, [worker])
    pool.passed(worker, {}, 5)
    assert (worker.usable, worker.incarnation, worker.epoch) == (True, 1, 5)


def test_worker_that_was_never_up_has_nothing_to_lose(pool: Pool) -> None:
    worker = pool.add(Role.DECODE, "http://a:8000")
    gone = recorded(pool.on_gone)
    pool.refused(worker)
    assert gone == []


def test_new_epoch_means_a_new_process(pool: Pool) -> None:
    worker = up(pool, epoch=1)
    gone = recorded(pool.on_gone)
    pool.passed(worker, {}, 1)
    assert gone == []
    pool.passed(worker, {}, 2)
    assert (gone, worker.incarnation) == ([worker], 1)


def test_draining_worker_gets_no_new_work(pool: Pool) -> None:
    worker = up(pool)
    pool.drain(worker, draining=True)
    assert pool.usable_decoders() == []
    assert pool.decoder() is None
    pool.drain(worker, draining=False)
    assert pool.decoder() is worker


def test_removed_worker_is_gone(pool: Pool) -> None:
    worker = up(pool)
    gone, removed = recorded(pool.on_gone), recorded(pool.on_removed)
    pool.remove(worker)
    pool.remove(worker)
    assert (gone, removed, pool.workers(Role.DECODE)) == ([worker], [worker], ())
    assert pool.add(Role.DECODE, worker.url) is not worker


def test_hung_prefiller_is_out_until_it_answers_restarts_or_gets_its_trial(pool: Pool, clock: Clock) -> None:
    worker = up(pool, Role.PREFILL)
    pool.prefill_timed_out(worker)
    assert pool.usable_prefillers() == [worker]
    pool.prefill_timed_out(worker)
    assert pool.usable_prefillers() == []
    clock.now += 299
    assert pool.usable_prefillers() == []
    clock.now += 1
    assert pool.usable_prefillers() == [worker]
    pool.prefill_timed_out(worker)
    assert pool.usable_prefillers() == []
    pool.refused(worker)
    pool.passed(worker, {}, 0)
    assert pool.usable_prefillers() == [worker]
    pool.prefill_timed_out(worker)
    pool.prefill_answered(worker)
    pool.prefill_timed_out(worker)
    assert pool.usable_prefillers() == [worker]


def test_answer_ends_hanging(pool: Pool) -> None:
    worker = up(pool, Role.PREFILL)
    pool.prefill_timed_out(worker)
    pool.prefill_timed_out(worker)
    pool.prefill_answered(worker)
    assert pool.usable_prefillers() == [worker]


def test_least_loaded_decoder_is_taken(pool: Pool) -> None:
    first, second = up(pool, name="a"), up(pool, name="b")
    with pool.busy(first):
        assert pool.decoder() is second
        assert pool.decoder(exclude=[second]) is first
        assert pool.decoder(exclude=[first, second]) is None
    assert first.requests == 0


def test_affinity_keeps_a_key_on_one_decoder_until_it_is_overloaded() -> None:
    pool = Pool(HealthPolicy(), Metrics(), affinity=Affinity.SESSION)
    workers = [up(pool, name=name) for name in "abcd"]
    keys = [str(number).encode() for number in range(200)]
    chosen = {key: pool.decoder(key) for key in keys}
    assert set(chosen.values()) == set(workers)
    # one that goes moves only its own keys
    pool.remove(workers[0])
    moved = [key for key in keys if pool.decoder(key) is not chosen[key]]
    assert moved == [key for key in keys if chosen[key] is workers[0]]
    key = next(key for key in keys if chosen[key] is workers[1])
    # three decoders: 1.25 × 2/3 + 1 is less than 2, 1.25 × 1/3 + 1 is more than 1
    workers[1].requests = 1
    assert pool.decoder(key) is workers[1]
    workers[1].requests = 2
    assert pool.decoder(key) is not workers[1]
    assert pool.decoder(None) is not workers[1]


def test_models_and_epoch_are_read_from_the_list_of_models() -> None:
    body = b'{"object":"list","data":[{"id":"m","max_model_len":5},{"id":"dpd-epoch-12"},{"id":"adapter"}]}'
    assert read_models(body) == ({"m": 5, "adapter": 0}, 12)
    assert read_models(b'{"data":[{"id":"dpd-epoch-x"}]}') == ({"dpd-epoch-x": 0}, 0)


def test_pair_breaks_after_failures_in_a_row_and_heals(pool: Pool, clock: Clock) -> None:
    pairs = Pairs(HealthPolicy(pair_broken_after=2, pair_retry_seconds=60), Metrics(), clock, port_epochs=8)
    prefiller, decoder = up(pool, Role.PREFILL, "p"), up(pool)
    pairs.failed(prefiller, decoder)
    pairs.succeeded(prefiller, decoder)
    pairs.failed(prefiller, decoder)
    assert pairs.usable(prefiller, decoder)
    pairs.failed(prefiller, decoder)
    assert (pairs.usable(prefiller, decoder), pairs.broken) == (False, 1)
    clock.now += 60
    assert pairs.usable(prefiller, decoder)
    pairs.trial(prefiller, decoder)
    assert not pairs.usable(prefiller, decoder)
    pairs.succeeded(prefiller, decoder)
    assert (pairs.usable(prefiller, decoder), pairs.broken) == (True, 0)


@pytest.mark.parametrize("restarted", ["prefiller", "decoder"])
def test_restart_of_either_side_makes_a_new_pair(pool: Pool, clock: Clock, restarted: str) -> None:
    pairs = Pairs(HealthPolicy(pair_broken_after=1), Metrics(), clock, port_epochs=8)
    prefiller, decoder = up(pool, Role.PREFILL, "p"), up(pool)
    other = up(pool, name="other")
    for worker in (decoder, other):
        pairs.failed(prefiller, worker)
    gone = prefiller if restarted == "prefiller" else decoder
    gone.incarnation += 1
    assert pairs.usable(prefiller, decoder)
    pairs.forget(gone)
    assert pairs.broken == (0 if restarted == "prefiller" else 1)


def test_ports_that_a_prefiller_knows_of_an_earlier_start_make_no_pair(pool: Pool, clock: Clock) -> None:
    pairs = Pairs(HealthPolicy(pair_retry_seconds=60), Metrics(), clock, port_epochs=2)
    prefiller, other, decoder = up(pool, Role.PREFILL, "p"), up(pool, Role.PREFILL, "q"), up(pool)
    pool.on_gone.append(pairs.forget)

    def usable_after_start(epoch: int) -> tuple[bool, bool, int]:
        pool.passed(decoder, {"m": 100}, epoch)
        clock.now += 3600
        return pairs.usable(prefiller, decoder), pairs.usable(other, decoder), pairs.broken

    pairs.succeeded(prefiller, decoder)
    assert usable_after_start(0) == (True, True, 0)
    assert usable_after_start(1) == (True, True, 0)
    # the first ports again, and then ports that nobody has used
    assert usable_after_start(2) == (False, True, 1)
    assert usable_after_start(3) == (True, True, 0)
    assert usable_after_start(4) == (False, True, 1)
    prefiller.incarnation += 1
    pairs.forget(prefiller)
    assert usable_after_start(4) == (True, True, 0)
