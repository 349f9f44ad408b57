"""While the schedule keeps the nodes away nobody is called for missing workers, and for everything else as ever."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperpod_dpd.observability.alert_manager import alert_manager_definition
from hyperpod_dpd.observability.rules import ABOUT_MISSING_WORKERS
from hyperpod_dpd.spec import Schedule
from tests.observability.alerting import (
    accepted,
    alert,
    alertmanager,
    configuration_in,
    fire,
    publishing_to,
    sns,
)
from tests.observability.test_alert_transport import REGION, TOPIC, template
from tests.observability.test_alerts import variants
from tests.support.deployments import changed, ready
from tests.support.template import only, text

DAILY = Schedule(stop_cron="cron(0 20 ? * * *)", start_cron="cron(0 7 ? * * *)", warm_up_minutes=120)
DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
WEEK_MINUTES = 7 * 24 * 60


def configuration(schedule: Schedule | None) -> dict[str, Any]:
    return configuration_in(alert_manager_definition(topic_arn=TOPIC, region=REGION, nights_off=schedule))


# -- which alerts -------------------------------------------------------------------------------------------------


def test_the_muted_alerts_are_those_about_workers_that_are_not_there() -> None:
    presence = {
        each.name
        for groups in variants().values()
        for group in groups
        for each in group.alerts
        if 'up{deployment="' in each.expression
    }
    speaks_of_workers_that_are_there = {
        "DpdEfaIdle",
        "DpdEfaCountersMissing",
        "DpdGpuCountersMissing",
        "DpdKvNotReused",
    }
    assert set(ABOUT_MISSING_WORKERS) == presence - {"DpdRouterDown"} - speaks_of_workers_that_are_there


def test_they_have_a_route_of_their_own_that_inherits_everything_else() -> None:
    (route,) = configuration(DAILY)["route"]["routes"]
    assert set(route) == {"matchers", "mute_time_intervals"}
    (matcher,) = route["matchers"]
    assert matcher == f'alertname=~"{"|".join(ABOUT_MISSING_WORKERS)}"'


@pytest.mark.parametrize(
    "schedule", [None, Schedule(stop_cron="cron(0 20 L * ? *)", start_cron="cron(0 7 1 * ? *)")]
)
def test_nothing_is_muted_where_no_week_says_when(schedule: Schedule | None) -> None:
    found = configuration(schedule)
    assert "routes" not in found["route"]
    assert "time_intervals" not in found


def test_the_workspace_of_a_deployment_with_a_schedule_knows_it() -> None:
    _, workspace = only(template(changed(ready(), platform__nights_off=DAILY)), "AWS::APS::Workspace")
    shown = text(workspace["Properties"]["AlertManagerDefinition"])
    assert configuration_in(shown)["time_intervals"] == configuration(DAILY)["time_intervals"]


# -- when ---------------------------------------------------------------------------------------------------------


def muted(intervals: Iterable[Mapping[str, Any]], week_minute: int) -> bool:
    """What Alertmanager makes of intervals with weekdays and times: the end of a time is not part of it."""
    day, minute = divmod(week_minute, 24 * 60)
    return any(
        DAYS[day] in interval["weekdays"]
        and any(
            _minute(time["start_time"]) <= minute < _minute(time["end_time"]) for time in interval["times"]
        )
        for interval in intervals
    )


def _minute(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


def intervals(schedule: Schedule) -> list[dict[str, Any]]:
    (named,) = configuration(schedule)["time_intervals"]
    found: list[dict[str, Any]] = named["time_intervals"]
    return found


def at(day: str, clock: str) -> int:
    return DAYS.index(day) * 24 * 60 + _minute(clock)


@pytest.mark.parametrize(
    ("day", "clock", "wanted"),
    [
        ("monday", "12:00", False),
        ("monday", "19:59", False),
        ("monday", "20:00", True),
        ("monday", "23:59", True),
        ("tuesday", "00:00", True),
        ("tuesday", "03:00", True),
        ("tuesday", "07:00", True),
        ("tuesday", "08:59", True),
        ("tuesday", "09:00", False),
        ("friday", "19:59", False),
        ("saturday", "12:00", True),
        ("sunday", "23:59", True),
        ("monday", "08:59", True),
        ("monday", "09:00", False),
    ],
)
def test_from_the_stop_to_the_end_of_the_warm_up(day: str, clock: str, wanted: bool) -> None:
    workdays = Schedule(
        stop_cron="cron(0 20 ? * MON-FRI *)",
        start_cron="cron(0 7 ? * MON-FRI *)",
        time_zone="Europe/Berlin",
        warm_up_minutes=120,
    )
    found = intervals(workdays)
    assert muted(found, at(day, clock)) is wanted
    assert {each["location"] for each in found} == {"Europe/Berlin"}


def simulated(
    stops: Collection[tuple[int, int, int]], starts: Collection[tuple[int, int, int]], warm_up_minutes: int
) -> list[bool]:
    """Whether each minute of a week is muted, by going through three weeks and looking at the last."""
    away, back_since = False, -2 * WEEK_MINUTES
    found = []
    for now in range(-WEEK_MINUTES, 2 * WEEK_MINUTES):
        day, minute = divmod(now % WEEK_MINUTES, 24 * 60)
        moment = (day, *divmod(minute, 60))
        if moment in stops:
            away = True
        elif moment in starts and away:
            away, back_since = False, now
        found.append(away or now - back_since < warm_up_minutes)
    return found[-WEEK_MINUTES:]


MOMENTS = st.tuples(
    st.sets(st.integers(0, 6), min_size=1),
    st.sets(st.integers(0, 23), min_size=1, max_size=2),
    st.sets(st.sampled_from((0, 1, 30, 59)), min_size=1, max_size=2),
)


def cron(moments: tuple[set[int], set[int], set[int]]) -> str:
    days, hours, minutes = moments
    listed = [",".join(map(str, sorted(each))) for each in (minutes, hours, {day + 1 for day in days})]
    return f"cron({listed[0]} {listed[1]} ? * {listed[2]} *)"


def all_of(moments: tuple[set[int], set[int], set[int]]) -> frozenset[tuple[int, int, int]]:
    days, hours, minutes = moments
    return frozenset((day, hour, minute) for day in days for hour in hours for minute in minutes)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stop=MOMENTS, start=MOMENTS, warm_up_minutes=st.sampled_from((1, 59, 180, 2_000)))
def test_any_week_is_muted_exactly_while_nodes_are_away_or_coming_back(
    stop: tuple[set[int], set[int], set[int]],
    start: tuple[set[int], set[int], set[int]],
    warm_up_minutes: int,
) -> None:
    schedule = Schedule(stop_cron=cron(stop), start_cron=cron(start), warm_up_minutes=warm_up_minutes)
    if all_of(stop) & all_of(start):
        assert "time_intervals" not in configuration(schedule)
        return
    found = intervals(schedule)
    assert [muted(found, minute) for minute in range(WEEK_MINUTES)] == simulated(
        all_of(stop), all_of(start), warm_up_minutes
    )


# -- what a real Alertmanager makes of it -------------------------------------------------------------------------


def zone_where_it_is(hour: int) -> str:
    """Return a time zone in whose day it is `hour` o'clock now."""
    ahead = (hour - datetime.now(UTC).hour) % 24
    # the signs of these zones are those of the hours that have to be added to get to UTC
    return f"Etc/GMT-{ahead}" if ahead <= 14 else f"Etc/GMT+{24 - ahead}"


def test_amtool_accepts_the_intervals(tmp_path: Path) -> None:
    assert " - 1 receivers" in accepted(configuration(DAILY), tmp_path)


@pytest.mark.parametrize(("hour", "silent"), [(3, True), (7, True), (12, False), (21, True)], ids=str)
def test_a_real_alertmanager_calls_by_day_and_not_by_night(hour: int, silent: bool, tmp_path: Path) -> None:
    # the next full hour is on the same side of every edge
    schedule = replace(DAILY, time_zone=zone_where_it_is(hour))
    names = [*ABOUT_MISSING_WORKERS, "DpdRouterDown", "DpdPdBufferLost", "DpdTtftBudgetBurningFast"]
    expected = {name for name in names if not (silent and name in ABOUT_MISSING_WORKERS)}
    with sns() as service:
        config = publishing_to(service, configuration(schedule))
        with alertmanager(config, tmp_path) as running:
            fire(running, *map(alert, names))
            subjects = [service.published.get(timeout=60)["Subject"] for _ in expected]
            if silent:
                for _ in ABOUT_MISSING_WORKERS:
                    running.wait_for("route is within mute time")
    assert set(subjects) == {f"[FIRING] critical {name} llama" for name in expected}
    assert service.published.empty()
