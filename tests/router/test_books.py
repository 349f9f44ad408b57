import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpd_router.books import Books, UnbalancedError, chunks_of
from dpd_router.handoff import (
    FINAL,
    NEXT,
    Handoff,
    IllegalTransitionError,
    State,
    new_id,
    receiver_ports,
    salt_for,
)
from dpd_router.metrics import Metrics
from dpd_router.pool import Role, Worker


@pytest.fixture
def books() -> Books:
    made = Books(Metrics())
    made.open_account("d", 10, 0)
    return made


def test_chunks_are_whole() -> None:
    assert [chunks_of(tokens, 256) for tokens in (1, 256, 257, 4096)] == [1, 1, 2, 16]


def test_room_is_given_whole_or_not_at_all(books: Books) -> None:
    assert books.reserve("a", "d", 6)
    assert not books.reserve("b", "d", 5)
    assert books.reserve("b", "d", 4)
    assert (books.free("d"), books.outstanding("d"), books.open_entries) == (0, 10, 2)
    books.settle("a")
    assert books.free("d") == 6
    books.check()


def test_unknown_decoder_has_no_room(books: Books) -> None:
    assert not books.reserve("a", "x", 1)
    assert (books.free("x"), books.capacity("x"), books.outstanding("x"), books.size("x")) == (0, 0, 0, 0)


def test_settling_twice_and_reserving_twice_are_defects(books: Books) -> None:
    books.reserve("a", "d", 1)
    with pytest.raises(UnbalancedError):
        books.reserve("a", "d", 1)
    books.settle("a")
    with pytest.raises(UnbalancedError):
        books.settle("a")


def test_a_restarted_decoder_starts_empty_and_old_entries_do_not_weigh_on_it(books: Books) -> None:
    books.reserve("a", "d", 6)
    books.open_account("d", 10, 1)
    assert books.free("d") == 10
    books.reserve("b", "d", 3)
    books.settle("a", leaked_chunks=6)
    assert (books.outstanding("d"), books.capacity("d")) == (3, 10)
    books.check()


def test_suspected_leaks_stay_off_the_capacity_until_a_restart(books: Books) -> None:
    books.reserve("a", "d", 6)
    books.settle("a", leaked_chunks=9)
    books.suspect("d", 0, 1)
    books.suspect("d", 7, 1)
    books.suspect("x", 0, 1)
    assert (books.capacity("d"), books.free("d")) == (3, 3)
    books.open_account("d", 10, 0)
    assert books.capacity("d") == 3
    books.open_account("d", 10, 1)
    assert books.capacity("d") == 10


def test_a_closed_account_is_forgotten(books: Books) -> None:
    books.reserve("a", "d", 6)
    books.close_account("d")
    assert not books.reserve("b", "d", 1)
    books.check()
    books.settle("a")
    assert books.open_entries == 0
    books.check()


def test_an_account_of_another_size_starts_anew(books: Books) -> None:
    books.open_account("d", 12, 0)
    assert (books.size("d"), books.free("d")) == (12, 12)


def test_what_is_reserved_and_suspected_is_published() -> None:
    metrics = Metrics()
    books = Books(metrics)

    def published() -> tuple[float | None, ...]:
        names = ("buffer", "inflight", "suspected")
        return tuple(
            metrics.registry.get_sample_value(f"dpd_router_{name}_chunks", {"decoder": "d"}) for name in names
        )

    books.open_account("d", 10, 0)
    assert published() == (10, 0, 0)
    books.reserve("a", "d", 6)
    assert published() == (10, 6, 0)
    books.settle("a", leaked_chunks=2)
    assert published() == (10, 0, 2)
    books.presume_lost("d", 0, 3)
    books.presume_lost("d", 7, 5)
    books.presume_lost("x", 0, 5)
    assert published() == (10, 0, 3)
    books.suspect("d", 0, 9)
    assert published() == (10, 0, 10)
    books.open_account("d", 10, 1)
    assert published() == (10, 0, 0)


@pytest.mark.parametrize("change", ["opened", "closed"])
async def test_waiters_look_again_when_a_decoder_comes_or_goes(books: Books, change: str) -> None:
    wait = asyncio.create_task(books.room())
    await asyncio.sleep(0)
    if change == "opened":
        books.open_account("e", 10, 0)
    else:
        books.close_account("d")
    async with asyncio.timeout(5):
        await wait


def test_sums_that_disagree_are_noticed(books: Books) -> None:
    books.reserve("a", "d", 1)
    books._accounts["d"].reserved = 2
    with pytest.raises(UnbalancedError):
        books.check()


async def test_waiters_wake_when_room_comes(books: Books) -> None:
    books.reserve("a", "d", 1)
    waits = [asyncio.create_task(books.room()) for _ in range(3)]
    await asyncio.sleep(0)
    waits[1].cancel()
    await asyncio.gather(waits[1], return_exceptions=True)
    assert books.waiting == 2
    books.settle("a")
    await asyncio.gather(waits[0], waits[2])
    assert books.waiting == 0


async def test_a_waiter_that_leaves_when_room_comes_just_leaves(books: Books) -> None:
    books.reserve("a", "d", 1)
    wait = asyncio.create_task(books.room())
    await asyncio.sleep(0)
    wait.cancel()
    books.settle("a")
    with pytest.raises(asyncio.CancelledError):
        await wait
    assert books.waiting == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["reserve", "settle", "restart", "leak"]), st.integers(0, 9), st.integers(1, 8)
        )
    )
)
def test_sums_agree_after_any_sequence(steps: list[tuple[str, int, int]]) -> None:
    books = Books(Metrics())
    books.open_account("d", 20, 0)
    open_entries: set[str] = set()
    incarnation = 0
    for action, number, chunks in steps:
        name = str(number)
        if action == "reserve" and name not in open_entries and books.reserve(name, "d", chunks):
            open_entries.add(name)
        elif action in {"settle", "leak"} and name in open_entries:
            books.settle(name, leaked_chunks=chunks if action == "leak" else 0)
            open_entries.discard(name)
        elif action == "restart":
            incarnation += 1
            books.open_account("d", 20, incarnation)
        books.check()
        assert 0 <= books.outstanding("d") <= 20
        assert books.open_entries == len(open_entries)


def handoff(state: State = State.RESERVED) -> Handoff:
    worker = Worker(role=Role.DECODE, url="http://d:1")
    return Handoff(
        id="h", model="m", prefiller=worker, decoder=worker, decoder_incarnation=0, ids=[5, 6], salt="s", chunks=1,
        notified=asyncio.Event(), settled=asyncio.Event(), state=state,
    )  # fmt: skip


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("following", list(State))
async def test_only_the_transitions_of_the_picture_are_possible(state: State, following: State) -> None:
    made = handoff(state)
    if following in NEXT[state]:
        made.advance(following)
        assert made.state is following
        assert made.settled.is_set() == (following in FINAL)
        assert made.open == (following not in FINAL)
    else:
        with pytest.raises(IllegalTransitionError):
            made.advance(following)


async def test_consuming_prompt_has_one_token_more() -> None:
    made = handoff()
    assert made.consuming_prompt == [5, 6, 6]
    made.first_token = 9
    assert made.consuming_prompt == [5, 6, 9]
    assert made.tag == {"lmcache.tag.dpd": "h"}


def test_ids_are_unique_and_have_no_separator() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(value.isalnum() for value in ids)


def test_salts_differ_by_hand_off_and_by_client() -> None:
    salts = {salt_for("a", None), salt_for("b", None), salt_for("a", "x"), salt_for("a", "y")}
    assert len(salts) == 4


@pytest.mark.parametrize(
    ("epoch", "ports"),
    [(0, [7300, 7301]), (1, [7302, 7303]), (7, [7314, 7315]), (8, [7300, 7301]), (11, [7306, 7307])],
)
def test_ports_of_an_epoch(epoch: int, ports: list[int]) -> None:
    assert receiver_ports(7300, 2, epoch, 8) == ports
