"""The alert manager of a workspace: every alert of every deployment on the cluster goes to one SNS topic."""

import textwrap
from collections.abc import Iterator
from typing import Any, Final

import yaml

from hyperpod_dpd.derive.cron import MINUTES_PER_DAY, MINUTES_PER_WEEK
from hyperpod_dpd.derive.nights import nights
from hyperpod_dpd.observability.rules import ABOUT_MISSING_WORKERS, Severity
from hyperpod_dpd.spec import Schedule

RECEIVER: Final = "alerts"

GROUP_WAIT: Final = "30s"
"""What fires together arrives together: one cause makes several alerts within a scrape or two."""

GROUP_INTERVAL: Final = "5m"
REPEAT_INTERVAL: Final = "4h"
"""An alert that nobody ended is said again before the next shift."""

SUBJECT: Final = "[{{ .Status | toUpper }}] {{ .CommonLabels.severity }} {{ .GroupLabels.alertname }} {{ .GroupLabels.deployment }}"
"""SNS takes 100 ASCII characters of it; the names come first."""

MESSAGE: Final = """\
{{ range .Alerts }}{{ .Status | toUpper }} {{ .Labels.severity }} {{ .Labels.alertname }}
deployment: {{ .Labels.deployment }}
{{ .Annotations.summary }}
{{ .Annotations.description }}
runbook: {{ .Annotations.runbook_url }}
since: {{ .StartsAt }}
{{ if eq .Status "resolved" }}until: {{ .EndsAt }}
{{ end }}
{{ end }}"""


NIGHTS_OFF: Final = "nights-off"
"""Name of the time interval in which the nodes are away, or not back yet."""

_WEEKDAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")


def alert_manager_definition(*, topic_arn: str, region: str, nights_off: Schedule | None = None) -> str:
    """Return the alert manager definition of an AMP workspace.

    Args:
        topic_arn: topic in the account and region of the workspace: AMP publishes nowhere else.
        region: region of the topic.
        nights_off: schedule of the cluster's nodes. While they are away, and while they come back, the alerts about
            missing workers are not published, whichever deployment on the cluster they are about: every group of the
            cluster goes. A schedule that is not the same every week mutes nothing (DPD-HP-026 says so).
    """
    configuration = _configuration(topic_arn, region)
    if nights_off is not None and (intervals := list(_intervals(nights_off))):
        # the root of the tree cannot be muted; receiver and grouping are inherited
        configuration["route"]["routes"] = [
            {
                "matchers": [f'alertname=~"{"|".join(ABOUT_MISSING_WORKERS)}"'],
                "mute_time_intervals": [NIGHTS_OFF],
            }
        ]
        configuration["time_intervals"] = [{"name": NIGHTS_OFF, "time_intervals": intervals}]
    # a wrapped line would tear a name of the stack's that is put in later
    text = yaml.safe_dump(configuration, sort_keys=False, width=100_000)
    # only the outer key is AMP's own; below it is Alertmanager's configuration, as text
    return "alertmanager_config: |\n" + textwrap.indent(text, "  ")


def _configuration(topic_arn: str, region: str) -> dict[str, Any]:
    return {
        "route": {
            "receiver": RECEIVER,
            "group_by": ["alertname", "deployment"],
            "group_wait": GROUP_WAIT,
            "group_interval": GROUP_INTERVAL,
            "repeat_interval": REPEAT_INTERVAL,
        },
        "inhibit_rules": [
            # who is told that the budget is gone within hours need not be told that it is gone within days
            _silences(f"Dpd{kind}BudgetBurningFast", f"Dpd{kind}BudgetBurningSlowly")
            for kind in ("Ttft", "Tpot")
        ],
        "receivers": [
            {
                "name": RECEIVER,
                "sns_configs": [
                    {
                        "topic_arn": topic_arn,
                        "sigv4": {"region": region},
                        "send_resolved": True,
                        "subject": SUBJECT,
                        "message": MESSAGE,
                        # a subscription's filter policy can then choose: pages for one, mails for the other; SNS refuses
                        # the whole message when a value is empty
                        "attributes": {
                            "severity": '{{ or .CommonLabels.severity "mixed" }}',
                            "status": "{{ .Status }}",
                            "deployment": '{{ or .GroupLabels.deployment "none" }}',
                        },
                    }
                ],
            }
        ],
    }


def _intervals(schedule: Schedule) -> Iterator[dict[str, Any]]:
    """Yield Alertmanager's intervals, one for the days on which the same hours are muted.

    An interval of Alertmanager ends at midnight at the latest, so that a night is one of two days or more.
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
    for same, weekdays in days_with.items():
        yield {
            "weekdays": weekdays,
            "times": [{"start_time": _clock(start), "end_time": _clock(end)} for start, end in same],
            "location": schedule.time_zone,
        }


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _silences(louder: str, quieter: str) -> dict[str, Any]:
    return {
        "source_matchers": [f'alertname="{louder}"', f'severity="{Severity.CRITICAL.value}"'],
        "target_matchers": [f'alertname="{quieter}"'],
        "equal": ["deployment"],
    }
