"""DPD-HP-020: a schedule that stops nodes can be read and carried out."""

from collections.abc import Iterator

from hyperpod_dpd.derive.cron import flaw, weekly_minutes
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, Schedule


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
        found = flaw(text)
        if found is not None:
            yield Problem(
                path=f"platform.nights_off.{key}",
                says=f"not an EventBridge cron expression{found}",
                given=f"`{text}`",
                limit="`cron(minutes hours day-of-month month day-of-week year)`",
                fix="for example `cron(0 20 ? * MON-FRI *)`",
            )
    if _meet(schedule):
        yield Problem(
            path="platform.nights_off.start_cron",
            says="nodes would go and come at the same moment, and which wins is chance",
            given=f"`{schedule.stop_cron}` and `{schedule.start_cron}`",
            fix="give `start_cron` times at which none of `stop_cron` falls",
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


def _meet(schedule: Schedule) -> bool:
    """Whether nodes would ever go and come at the same moment, as far as both expressions say the same every week."""
    stops, starts = weekly_minutes(schedule.stop_cron), weekly_minutes(schedule.start_cron)
    if stops is None or starts is None:
        return schedule.stop_cron.upper() == schedule.start_cron.upper()
    return not stops.isdisjoint(starts)


def _is_time_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - only for deployments with a schedule

    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        return False
    return True
