"""The alert manager of a workspace: every alert of every deployment on the cluster goes to one SNS topic."""

import textwrap
from typing import Any, Final

import yaml

from hyperpod_dpd.observability.night_intervals import night_intervals
from hyperpod_dpd.observability.rules import ABOUT_MISSING_WORKERS, Severity
from hyperpod_dpd.spec import Schedule

RECEIVER: Final = "alerts"

NIGHTS_OFF: Final = "nights-off"
"""Name of the time interval in which the nodes are away, or not back yet."""

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
    if nights_off is not None and (intervals := night_intervals(nights_off)):
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


def _silences(louder: str, quieter: str) -> dict[str, Any]:
    return {
        "source_matchers": [f'alertname="{louder}"', f'severity="{Severity.CRITICAL.value}"'],
        "target_matchers": [f'alertname="{quieter}"'],
        "equal": ["deployment"],
    }
