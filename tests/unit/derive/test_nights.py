"""When nodes are away: cron expressions as minutes of a week, and the absences between two of them."""

import pytest

from hyperpod_dpd.derive.cron import MINUTES_PER_DAY, MINUTES_PER_WEEK, weekly_minutes
from hyperpod_dpd.derive.nights import Night, mornings, nights, shortest_day_minutes
from hyperpod_dpd.spec import Schedule

SUNDAY, MONDAY, FRIDAY, SATURDAY = 0, 1, 5, 6


def at(day: int, hour: int, minute: int = 0) -> int:
    return day * MINUTES_PER_DAY + hour * 60 + minute


def schedule(stop: str, start: str) -> Schedule:
    return Schedule(stop_cron=f"cron({stop})", start_cron=f"cron({start})")


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("cron(30 20 ? * FRI *)", {at(FRIDAY, 20, 30)}),
        ("cron(0 6 ? * 1,SAT *)", {at(SUNDAY, 6), at(SATURDAY, 6)}),
        ("cron(0/20 6 ? * 2 *)", {at(MONDAY, 6), at(MONDAY, 6, 20), at(MONDAY, 6, 40)}),
        (
            "cron(10-30/20 6,18 ? * mon *)",
            {at(MONDAY, hour, minute) for hour in (6, 18) for minute in (10, 30)},
        ),
        ("cron(0 0 * * ? *)", {at(day, 0) for day in range(7)}),
        ("cron(0 0 1-31 JAN-DEC ? 1970-2199)", {at(day, 0) for day in range(7)}),
        ("cron(0 0 ? * 2/2 *)", {at(day, 0) for day in (1, 3, 5)}),
        ("cron(50/1 6 ? * SUN *)", {at(SUNDAY, 6, minute) for minute in range(50, 60)}),
    ],
)
def test_an_expression_without_dates_is_a_set_of_minutes_of_the_week(text: str, minutes: set[int]) -> None:
    assert weekly_minutes(text) == frozenset(minutes)


@pytest.mark.parametrize(
    "text",
    [
        "cron(0 20 1 * ? *)",
        "cron(0 20 */2 * ? *)",
        "cron(0 20 LW * ? *)",
        "cron(0 20 15W * ? *)",
        "cron(0 20 ? JUN-AUG MON-FRI *)",
        "cron(0 20 ? * 6#3 *)",
        "cron(0 20 ? * L *)",
        "cron(0 20 ? * 6L *)",
        "cron(0 20 ? * MON-FRI 2027)",
        # whether a range may run backwards, and over what, EventBridge does not say
        "cron(0 20 ? * FRI-MON *)",
        "cron(0 20-6 ? * FRI *)",
        "cron(50-10 20 ? * FRI *)",
        "cron(0 1-2-3 ? * FRI *)",
        "cron(0 20 * * * *)",
        "every night",
    ],
)
def test_an_expression_with_dates_or_a_flaw_is_no_week(text: str) -> None:
    assert weekly_minutes(text) is None
    assert nights(Schedule(stop_cron=text, start_cron="cron(0 7 ? * MON-FRI *)")) is None
    assert nights(Schedule(stop_cron="cron(0 20 ? * MON-FRI *)", start_cron=text)) is None


def test_a_night_wraps_midnight_and_a_weekend_the_week() -> None:
    found = nights(schedule("0 20 ? * MON-FRI *", "0 7 ? * MON-FRI *"))
    assert found == (
        *(Night(stop_minute=at(day, 20), away_minutes=11 * 60) for day in range(1, 5)),
        Night(stop_minute=at(FRIDAY, 20), away_minutes=(11 + 48) * 60),
    )
    assert shortest_day_minutes(found) == 13 * 60


def test_stops_of_nodes_that_are_away_and_starts_of_nodes_that_are_there_change_nothing() -> None:
    found = nights(schedule("0,30 22 ? * SAT *", "0 6,18 ? * SUN *"))
    assert found == (Night(stop_minute=at(SATURDAY, 22), away_minutes=8 * 60),)
    assert shortest_day_minutes(found) == MINUTES_PER_WEEK - 8 * 60


def test_a_night_that_goes_on_over_the_end_of_the_week_is_one() -> None:
    found = nights(schedule("0 1,22 ? * SAT,SUN *", "0 6 ? * SUN *"))
    assert found == (Night(stop_minute=at(SUNDAY, 22), away_minutes=MINUTES_PER_WEEK - 16 * 60),)
    assert shortest_day_minutes(found) == 16 * 60


def test_going_and_coming_at_one_moment_is_no_night() -> None:
    assert nights(schedule("0 7,20 ? * MON *", "0 7 ? * * *")) is None


def test_mornings_are_the_starts_that_bring_nodes_back() -> None:
    assert mornings(schedule("0 20 ? * MON-FRI *", "0 7,9 ? * MON-FRI *")) == {
        7 * 60: ("MON", "TUE", "WED", "THU", "FRI")
    }
    assert mornings(schedule("0 22 ? * SAT,TUE *", "30 6 ? * SUN,WED *")) == {6 * 60 + 30: ("SUN", "WED")}
    assert mornings(schedule("0 20 L * ? *", "0 7 ? * MON *")) == {}
