"""DPD-HP-020: a schedule that stops nodes can be read and carried out."""

import re
from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_CRON = re.compile(r"cron\((\S+ ){5}\S+\)")
_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
# name, smallest and largest number, names of numbers from the smallest on, and what only this field has
_FIELDS: tuple[tuple[str, int, int, list[str], str], ...] = (
    ("minutes", 0, 59, [], r"(?!)"),
    ("hours", 0, 23, [], r"(?!)"),
    ("day-of-month", 1, 31, [], r"\?|L|LW|([1-9]|[12]\d|3[01])W"),
    ("month", 1, 12, _MONTHS, r"(?!)"),
    ("day-of-week", 1, 7, _DAYS, r"\?|L|[1-7]L|([1-7]|SUN|MON|TUE|WED|THU|FRI|SAT)#[1-5]"),
    ("year", 1970, 2199, [], r"(?!)"),
)
_DAY_OF_MONTH, _DAY_OF_WEEK = 2, 4


@deployment_rule(
    "DPD-HP-020",
    severity=Severity.ERROR,
    title="`nights_off` has EventBridge expressions, a known time zone, and groups that may go to zero",
    sources=("EventBridge Scheduler user guide, schedule types", "AWS::SageMaker::Cluster MinInstanceCount"),
)
def nights_off_can_be_carried_out(deployment: Deployment) -> Iterator[Problem]:
    """A schedule that EventBridge refuses fails the stack; one that HyperPod refuses burns money every night."""
    schedule = deployment.platform.nights_off
    if schedule is None:
        return
    for key, text in (("stop_cron", schedule.stop_cron), ("start_cron", schedule.start_cron)):
        flaw = _flaw(text)
        if flaw is not None:
            yield Problem(
                path=f"platform.nights_off.{key}",
                says=f"not an EventBridge cron expression{flaw}",
                given=f"`{text}`",
                limit="`cron(minutes hours day-of-month month day-of-week year)`",
                fix="for example `cron(0 20 ? * MON-FRI *)`",
            )
    if schedule.stop_cron.upper() == schedule.start_cron.upper():
        yield Problem(
            path="platform.nights_off.start_cron",
            says="nodes would go and come at the same moment, and which wins is chance",
            given=f"`{schedule.start_cron}` for both",
            fix="give `start_cron` the time at which they come back",
        )
    if not _is_time_zone(schedule.time_zone):
        yield Problem(
            path="platform.nights_off.time_zone",
            says="not an IANA time zone",
            given=f"`{schedule.time_zone}`",
            fix="for example `Europe/Berlin`",
        )
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if group.minimum:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].minimum",
                says=f"group `{group.name}` cannot go to zero at night",
                given=f"`minimum: {group.minimum}` with `platform.nights_off`",
                fix="remove `minimum` or `nights_off`",
            )


def _flaw(text: str) -> str | None:
    """Return what EventBridge finds wrong with `text`, to be read after `not an EventBridge cron expression`."""
    if not _CRON.fullmatch(text):
        return ""
    values = text.removeprefix("cron(").removesuffix(")").upper().split(" ")
    for value, field in zip(values, _FIELDS, strict=True):
        if not all(_fits(part, *field[1:]) for part in value.split(",")):
            return f", its {field[0]} is `{value}`"
    if (values[_DAY_OF_MONTH] == "?") == (values[_DAY_OF_WEEK] == "?"):
        return ", exactly one of day-of-month and day-of-week is `?`"
    return None


def _fits(part: str, smallest: int, largest: int, names: list[str], own: str) -> bool:
    """Whether `part` is a value, a range, or a step through one."""
    span, slash, step = part.partition("/")
    if slash and not (step.isdecimal() and int(step) > 0):
        return False
    if span == "*" or (not slash and re.fullmatch(own, span)):
        return True
    numbers = [
        names.index(end) + smallest if end in names else int(end) if end.isdecimal() else -1
        for end in span.split("-")
    ]
    return len(numbers) in (1, 2) and all(smallest <= number <= largest for number in numbers)


def _is_time_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - only for deployments with a schedule

    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        return False
    return True
