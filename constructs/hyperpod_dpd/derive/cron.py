"""Cron expressions of EventBridge Scheduler: what is wrong with one, and when in a week it fires.

`cron(minutes hours day-of-month month day-of-week year)`, as its user guide describes schedule types (2026-11-30).
"""

import re
from typing import Final

from hyperpod_dpd.spec.value import record

MINUTES_PER_DAY: Final = 24 * 60
MINUTES_PER_WEEK: Final = 7 * MINUTES_PER_DAY

_CRON: Final = re.compile(r"cron\((\S+ ){5}\S+\)")


@record
class _Field:
    name: str
    smallest: int
    largest: int
    names: tuple[str, ...] = ()
    """Names of the numbers, from the smallest on."""

    own: str = r"(?!)"
    """Pattern of what only this field may be."""

    def numbers(self, value: str) -> frozenset[int] | None:
        """Return the numbers that `value` stands for; None where they differ from month to month, or nobody says."""
        found: set[int] = set()
        for part in value.split(","):
            span, slash, step = part.partition("/")
            ends = self._ends("*" if span == "?" else span, open_ended=bool(slash))
            if ends is None or ends[0] > ends[1]:
                return None
            found.update(range(ends[0], ends[1] + 1, int(step or 1)))
        return frozenset(found)

    def leaves_none_out(self, value: str) -> bool:
        """Whether `value` stands for all that this field can be."""
        return self.numbers(value) == frozenset(range(self.smallest, self.largest + 1))

    def accepts(self, value: str) -> bool:
        """Whether EventBridge takes `value`: single ones, ranges, steps through one, or a form of this field's own."""
        return all(self._accepts(part) for part in value.split(","))

    def _accepts(self, part: str) -> bool:
        span, slash, step = part.partition("/")
        if slash and not (step.isdecimal() and int(step) > 0):
            return False
        return (
            bool(not slash and re.fullmatch(self.own, span)) or self._ends(span, open_ended=False) is not None
        )

    def _ends(self, span: str, *, open_ended: bool) -> tuple[int, int] | None:
        """Return the first and the last number of `span`; with a step a single number is only the first."""
        if span == "*":
            return self.smallest, self.largest
        numbers = [self._number(end) for end in span.split("-")]
        if len(numbers) > 2 or not all(self.smallest <= number <= self.largest for number in numbers):
            return None
        return numbers[0], self.largest if open_ended and len(numbers) == 1 else numbers[-1]

    def _number(self, text: str) -> int:
        if text in self.names:
            return self.names.index(text) + self.smallest
        return int(text) if text.isdecimal() else self.smallest - 1


_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
"""Names of the days of a week, from that of minute 0 on."""

_MINUTES: Final = _Field(name="minutes", smallest=0, largest=59)
_HOURS: Final = _Field(name="hours", smallest=0, largest=23)
_DAY_OF_MONTH: Final = _Field(
    name="day-of-month", smallest=1, largest=31, own=r"\?|L|LW|([1-9]|[12]\d|3[01])W"
)
_MONTH: Final = _Field(name="month", smallest=1, largest=12, names=_MONTHS)
_DAY_OF_WEEK: Final = _Field(
    name="day-of-week",
    smallest=1,
    largest=7,
    names=DAYS,
    own=r"\?|L|[1-7]L|([1-7]|SUN|MON|TUE|WED|THU|FRI|SAT)#[1-5]",
)
_YEAR: Final = _Field(name="year", smallest=1970, largest=2199)
_FIELDS: Final = (_MINUTES, _HOURS, _DAY_OF_MONTH, _MONTH, _DAY_OF_WEEK, _YEAR)


def flaw(text: str) -> str | None:
    """Return what EventBridge finds wrong with `text`, to be read after `not an EventBridge cron expression`."""
    values = _values(text)
    if values is None:
        return ""
    for value, field in zip(values, _FIELDS, strict=True):
        if not field.accepts(value):
            return f", its {field.name} is `{value}`"
    _, _, day_of_month, _, day_of_week, _ = values
    if (day_of_month == "?") == (day_of_week == "?"):
        return ", exactly one of day-of-month and day-of-week is `?`"
    return None


def weekly_minutes(text: str) -> frozenset[int] | None:
    """Return the minutes of a week at which `text` fires, 0 at Sunday 00:00; None where weeks differ or it has a flaw."""
    values = _values(text)
    if values is None or flaw(text) is not None:
        return None
    *clock, day_of_month, month, day_of_week, year = values
    minutes, hours = (field.numbers(value) for field, value in zip((_MINUTES, _HOURS), clock, strict=True))
    days = _DAY_OF_WEEK.numbers(day_of_week)
    dates = ((_DAY_OF_MONTH, day_of_month), (_MONTH, month), (_YEAR, year))
    if minutes is None or hours is None or days is None:
        return None
    if not all(field.leaves_none_out(value) for field, value in dates):
        return None
    return frozenset(
        (day - _DAY_OF_WEEK.smallest) * MINUTES_PER_DAY + hour * 60 + minute
        for day in days
        for hour in hours
        for minute in minutes
    )


def _values(text: str) -> list[str] | None:
    return text.removeprefix("cron(").removesuffix(")").upper().split(" ") if _CRON.fullmatch(text) else None
