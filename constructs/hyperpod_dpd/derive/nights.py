"""The hours in which a schedule keeps the GPU nodes away, as parts of a week."""

from bisect import bisect_right

from hyperpod_dpd.derive.cron import DAYS, MINUTES_PER_DAY, MINUTES_PER_WEEK, weekly_minutes
from hyperpod_dpd.spec import Schedule
from hyperpod_dpd.spec.value import record


@record
class Night:
    """One absence of the nodes, in the schedule's time zone."""

    stop_minute: int
    """Minute of the week at which the groups go to zero, 0 at Sunday 00:00."""

    away_minutes: int
    """Minutes until they are asked for again, less than a week."""


def nights(schedule: Schedule) -> tuple[Night, ...] | None:
    """Return the absences that begin within a week, in their order; None where weeks differ.

    A stop while the nodes are away already, and a start while they are there, change nothing.
    """
    stops, starts = weekly_minutes(schedule.stop_cron), weekly_minutes(schedule.start_cron)
    if stops is None or starts is None or stops & starts:
        return None
    mornings = sorted(starts)
    away: dict[int, int] = {}
    for stop in stops:
        start = mornings[bisect_right(mornings, stop) % len(mornings)]
        away[start] = max(away.get(start, 0), (start - stop) % MINUTES_PER_WEEK)
    found = (
        Night(stop_minute=(start - minutes) % MINUTES_PER_WEEK, away_minutes=minutes)
        for start, minutes in away.items()
    )
    return tuple(sorted(found, key=lambda night: night.stop_minute))


def mornings(schedule: Schedule) -> dict[int, tuple[str, ...]]:
    """Return the days on which nodes are asked for after a night, by the minute of the day; empty where weeks differ."""
    days: dict[int, list[str]] = {}
    for night in nights(schedule) or ():
        day, minute = divmod((night.stop_minute + night.away_minutes) % MINUTES_PER_WEEK, MINUTES_PER_DAY)
        days.setdefault(minute, []).append(DAYS[day])
    return {minute: tuple(sorted(found, key=DAYS.index)) for minute, found in days.items()}


def shortest_day_minutes(found: tuple[Night, ...]) -> int:
    """Return the least minutes between a start and the next stop."""
    following = (*found[1:], found[0])
    return min(
        (later.stop_minute - night.stop_minute - night.away_minutes) % MINUTES_PER_WEEK
        for night, later in zip(found, following, strict=True)
    )
