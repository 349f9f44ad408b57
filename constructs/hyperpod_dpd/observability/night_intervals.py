"""The hours in which a schedule keeps the nodes away, as Alertmanager writes time intervals."""

from typing import Any, Final

from hyperpod_dpd.derive.cron import MINUTES_PER_DAY, MINUTES_PER_WEEK
from hyperpod_dpd.derive.nights import nights
from hyperpod_dpd.spec import Schedule

_WEEKDAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")


def night_intervals(schedule: Schedule) -> list[dict[str, Any]]:
    """Return the intervals in which the nodes are away or coming back; none where weeks differ.

    One for all days on which the same hours are. An interval ends at midnight at the latest, so that a night is in
    those of two days or more.
    """
    hours_of: dict[int, set[tuple[int, int]]] = {}
    for night in nights(schedule) or ():
        muted_minutes = min(night.away_minutes + schedule.warm_up_minutes, MINUTES_PER_WEEK)
        begin, end = night.stop_minute, night.stop_minute + muted_minutes
        for day in range(begin // MINUTES_PER_DAY, (end - 1) // MINUTES_PER_DAY + 1):
            midnight = day * MINUTES_PER_DAY
            hours = max(begin - midnight, 0), min(end - midnight, MINUTES_PER_DAY)
            hours_of.setdefault(day % len(_WEEKDAYS), set()).add(hours)
    days_with: dict[tuple[tuple[int, int], ...], list[str]] = {}
    for day, times in sorted(hours_of.items()):
        days_with.setdefault(tuple(sorted(times)), []).append(_WEEKDAYS[day])
    return [
        {
            "weekdays": weekdays,
            "times": [{"start_time": _clock(start), "end_time": _clock(end)} for start, end in same],
            "location": schedule.time_zone,
        }
        for same, weekdays in days_with.items()
    ]


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
