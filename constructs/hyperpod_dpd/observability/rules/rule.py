"""Rules as values, and the text that every Prometheus reads."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

import yaml

from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record

RUNBOOKS: Final = "docs/runbooks"
"""Folder of the runbooks in this repository; one page per alert, named like it."""


class Severity(StrEnum):
    """How soon somebody has to look."""

    CRITICAL = "critical"
    """Now: users are hurt, or the hand-off does not work and nobody would notice otherwise."""

    WARNING = "warning"
    """Within the working day."""


@record
class Recording:
    """An expression that is computed once and read by dashboards and alerts."""

    name: str
    expression: str

    def as_dict(self, labels: dict[str, str], _runbooks: str) -> dict[str, Any]:
        """Return the rule as Prometheus reads it, with `labels` on its series."""
        return {"record": self.name, "expr": self.expression, "labels": labels}


@record
class Alert:
    """A condition that somebody has to know about."""

    name: str
    expression: str

    pending: str
    """How long the condition must hold, as Prometheus writes durations."""

    severity: Severity
    summary: str
    """One line with the numbers; a template."""

    description: str
    """What it means and what it is most likely caused by; a template."""

    @property
    def runbook(self) -> str:
        """Path of the runbook in this repository."""
        return f"{RUNBOOKS}/{self.name}.md"

    def as_dict(self, labels: dict[str, str], runbooks: str) -> dict[str, Any]:
        """Return the rule as Prometheus reads it, with `labels` on the alert and its page below `runbooks`."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.pending,
            "labels": {**labels, "severity": self.severity.value},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{runbooks}/{self.name}.md",
            },
        }


@record
class Group:
    """Rules that are evaluated together, one after the other."""

    name: str
    interval: str
    rules: tuple[Recording | Alert, ...]

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The alerts among the rules."""
        return tuple(rule for rule in self.rules if isinstance(rule, Alert))


def groups_as_dicts(groups: Iterable[Group], *, deployment: Deployment) -> list[dict[str, Any]]:
    """Return `groups` as Prometheus reads them; every series and alert says its deployment."""
    labels = {"deployment": deployment.name}
    runbooks = (deployment.platform.alerts.runbooks_url or RUNBOOKS).rstrip("/")
    return [
        {
            "name": group.name,
            "interval": group.interval,
            "rules": [rule.as_dict(labels, runbooks) for rule in group.rules],
        }
        for group in groups
    ]


def definition(groups: Iterable[Group], *, deployment: Deployment) -> str:
    """Return the text of a rule file: `promtool` checks it, and it is the data of an AMP rule groups namespace."""
    return yaml.safe_dump(
        {"groups": groups_as_dicts(groups, deployment=deployment)},
        sort_keys=False,
        allow_unicode=True,
        width=10_000,
    )
