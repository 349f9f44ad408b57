"""DPD-HP-026: whoever is called for missing workers is not called by the schedule that stops them."""

from collections.abc import Iterator

from hyperpod_dpd.derive.cron import flaw, weekly_minutes
from hyperpod_dpd.derive.nights import nights, shortest_day_minutes
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, Schedule


@deployment_rule(
    "DPD-HP-026",
    severity=Severity.WARNING,
    title="the alert manager knows when `nights_off` keeps the workers away",
    sources=("Alertmanager configuration, time_interval", "EventBridge Scheduler user guide, schedule types"),
)
def missing_workers_are_missed_by_day_only(deployment: Deployment) -> Iterator[Problem]:
    """A page in every night teaches people to ignore pages; one that is muted by day as well tells nobody."""
    schedule = deployment.platform.nights_off
    # on a cluster of somebody else the owner's schedule counts, and the owner's alert manager; without scraping there
    # are no alerts
    if schedule is None or deployment.cluster.existing or deployment.platform.scraping == "none":
        return
    if deployment.platform.scraping == "prometheus-operator":
        yield Problem(
            path="platform.nights_off",
            says="the alerts about missing workers fire every night, in an Alertmanager that is not this project's",
            given=f"`scraping: {deployment.platform.scraping}`",
            fix="mute them there (docs/how-to/upgrade.md, number of nodes, names them), and acknowledge it",
        )
    elif _has_dates(schedule):
        yield Problem(
            path="platform.nights_off",
            says="the alerts about missing workers fire in these nights: they are not the same every week, and only "
            "times of weekdays can be muted",
            given=f"`{schedule.stop_cron}` and `{schedule.start_cron}`",
            limit="`cron(minutes hours ? * days-of-week *)`",
            fix="name days of the week instead of dates, or acknowledge who ignores the alerts",
        )
    elif (found := nights(schedule)) and (day := shortest_day_minutes(found)) <= schedule.warm_up_minutes:
        yield Problem(
            path="platform.nights_off.warm_up_minutes",
            says="there is a day on which nobody is told about missing workers",
            given=f"`{schedule.warm_up_minutes}`",
            limit=f"less than {day} minutes, the shortest time between a start and the next stop",
            fix="give the minutes that nodes and workers take to come back, or let the day begin earlier",
        )


def _has_dates(schedule: Schedule) -> bool:
    """Whether a schedule that EventBridge takes differs from week to week."""
    expressions = (schedule.stop_cron, schedule.start_cron)
    return all(flaw(each) is None for each in expressions) and None in map(weekly_minutes, expressions)
