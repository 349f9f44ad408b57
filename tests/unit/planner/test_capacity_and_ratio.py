"""How many users a shape serves, and how many prefillers feed a decoder: with answers that a test gives."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.planner.capacity import Capacity, capacity
from hyperpod_dpd.planner.ratio import Balance, balance
from hyperpod_dpd.planner.shape import Shape
from hyperpod_dpd.planner.step import StepModel
from hyperpod_dpd.planner.workbench import Workbench

_P5 = instance_type("ml.p5.48xlarge")


@dataclass
class Bench:
    """Keeps the promises up to a number of users per worker, and up to another when it looks for longer."""

    most: int
    most_for_long: int | None = None
    asked: list[tuple[int, int]] = field(default_factory=list)
    """Users and workers of every question."""

    def users(self, users: int, turns: int = 2) -> tuple[int, int]:
        return users, turns

    def evaluate(self, shape: Shape, load: tuple[int, int], _: object) -> SimpleNamespace:
        users, turns = load
        self.asked.append((users, shape.decoders))
        most = self.most if turns == 1 or self.most_for_long is None else self.most_for_long
        return SimpleNamespace(meets_slo=users <= most * shape.decoders, shape=shape, users=users)


def _found(bench: Bench, decoders: int = 1, guess: int = 16) -> Capacity | None:
    shape = Shape(
        prefillers=0,
        decoders=decoders,
        prefill_instance=_P5,
        decode_instance=_P5,
        gpus_per_worker=8,
        max_num_batched_tokens=8192,
        max_num_seqs=64,
    )
    return capacity(cast(Workbench, bench), shape, guess=guess)


@pytest.mark.parametrize("most", [1, 2, 3, 15, 16, 17, 100, 1000, 4095, 4096])
@pytest.mark.parametrize("guess", [1, 16, 4096, 10_000])
def test_capacity_is_within_six_per_cent_below_the_limit(most: int, guess: int) -> None:
    found = _found(Bench(most), guess=guess)
    assert found is not None
    assert found.users <= most < max(found.users + 1, found.users * 1.06)


def test_nobody_is_asked_about_more_users_than_the_model_is_for() -> None:
    bench = Bench(10**6)
    found = _found(bench)
    assert found is not None
    assert (found.users, max(bench.asked)) == (4096, (4096, 1))


def test_one_user_too_many_is_no_capacity() -> None:
    assert _found(Bench(0)) is None
    assert _found(Bench(0), decoders=2) is None


def test_figure_that_does_not_hold_for_long_is_lowered() -> None:
    found = _found(Bench(100, most_for_long=50))
    assert found is not None
    assert 50 / 1.06 - 1 <= found.users <= 50
    assert _found(Bench(100, most_for_long=0)) is None


def test_workers_that_share_nothing_are_measured_once_and_then_together() -> None:
    bench = Bench(16)
    found = _found(bench, decoders=3)
    assert found is not None
    assert (found.users, found.shape.decoders) == (48, 3)
    assert [users for users, workers in bench.asked if workers > 1] == [48]


class Linear:
    """Half a second per prompt, 10 ms and one per sequence for a step, copies of 0.1 and 0.02 s."""

    contexts: list[int]

    def __init__(self) -> None:
        self.contexts = []

    def prefill_seconds(self, tokens: int, budget: int) -> float:
        return 0.5 * tokens / 1000 * 512 / budget

    def store_seconds(self, tokens: int) -> float:
        return 0.1 * tokens / 1000

    def retrieve_seconds(self, tokens: int) -> float:
        return 0.02 * tokens / 1000

    def decode_step_seconds(self, batch: int, context: int) -> float:
        self.contexts.append(context)
        return 0.01 + 0.001 * batch


def _balance(times: Linear, **changes: Any) -> Balance:
    given = {
        "input_tokens": 1000,
        "output_tokens": 11,
        "prefill_budget": 512,
        "tpot_seconds": 0.0401,
        "kv_tokens": 10**6,
    }
    model = cast(StepModel, times)
    return balance(model, model, **{**given, **changes})


def test_decoder_takes_the_largest_batch_that_keeps_the_promise() -> None:
    """0.01 + 0.001 × 10 for a step and 0.02 × 10 / 10 for copies are 40 ms; eleven sequences would take 43."""
    times = Linear()
    found = _balance(times)
    assert found.decode_batch == 10
    assert found.decode_requests_per_second == pytest.approx(10 / (10 * 0.02 + 10 * 0.02))
    # half of the answer is there on average
    assert set(times.contexts) == {1005}


def test_prefillers_per_decoder_is_where_neither_waits() -> None:
    found = _balance(Linear())
    assert found.prefill_requests_per_second == pytest.approx(1 / 0.6)
    assert found.prefillers_per_decoder == pytest.approx(25 * 0.6)
    assert found.requests_per_second(15, 1) == pytest.approx(25)
    assert found.requests_per_second(3, 1) == pytest.approx(5)


@pytest.mark.parametrize(("kv_tokens", "batch"), [(5 * 1011, 5), (5 * 1011 - 1, 4), (1010, 0)])
def test_kv_cache_bounds_the_batch(kv_tokens: int, batch: int) -> None:
    assert _balance(Linear(), kv_tokens=kv_tokens).decode_batch == batch


def test_decoder_that_keeps_no_promise_finishes_nothing() -> None:
    found = _balance(Linear(), tpot_seconds=0.001)
    assert (found.decode_batch, found.decode_requests_per_second) == (0, 0.0)


def test_answer_of_one_token_takes_one_step() -> None:
    assert (
        _balance(Linear(), output_tokens=1).decode_batch == _balance(Linear(), output_tokens=2).decode_batch
    )
