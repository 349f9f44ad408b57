"""Alerts that fire, from Amazon Managed Service for Prometheus."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.error import HTTPError

from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.status.observation import Answer, Row, State, Unseen
from hyperpod_dpd.status.outside import Outside
from hyperpod_dpd.status.sources.stacks import tagged_stacks

_FORBIDDEN = 403
_SERVICE = "aps"


def alerts(deployment: Deployment, outside: Outside) -> Iterator[Answer]:
    """Yield a row per alert that is pending or firing, and one where none of them could fire; else one that says so."""
    url = _workspace_url(deployment, outside)
    if url is None:
        yield Unseen(
            what="alerts",
            why=f"no stack has an output `{Binding.AMP_WORKSPACE_URL.output_key}` with a Prometheus workspace",
            skipped=True,
        )
        return
    alerts = _ask(outside, f"{url.rstrip('/')}/api/v1/alerts", what="alerts", needs="aps:ListAlerts")
    rules = _ask(
        outside, f"{url.rstrip('/')}/api/v1/rules", what="rules of the alerts", needs="aps:ListRules"
    )
    if isinstance(alerts, Unseen):
        yield alerts
    else:
        yield from _firing(alerts["alerts"])
    if isinstance(rules, Unseen):
        yield rules
        return
    silent = _cannot_fire(deployment, rules["groups"])
    if silent is not None:
        yield silent
    elif not isinstance(alerts, Unseen) and not alerts["alerts"]:
        yield Row(kind="alerts", name="all", state=State.WELL, word="0 firing")


def _ask(outside: Outside, url: str, *, what: str, needs: str) -> dict[str, Any] | Unseen:
    try:
        data: dict[str, Any] = outside.signed(url, _SERVICE)["data"]
    except HTTPError as error:
        if error.code == _FORBIDDEN:
            return Unseen(what=what, why=f"needs `{needs}`", needs=needs)
        return Unseen(what=what, why=f"the workspace answers {error.code} {error.reason}")
    except OSError as error:
        return Unseen(what=what, why=f"the workspace does not answer: {getattr(error, 'reason', error)}")
    return data


def _firing(alerts: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for alert in alerts:
        labels, notes = alert.get("labels", {}), alert.get("annotations", {})
        yield Row(
            kind="alert",
            name=labels.get("alertname", "unnamed"),
            state=State.ILL if alert.get("state") == "firing" else State.BUSY,
            word=str(alert.get("state", "unknown")),
            detail=notes.get("summary") or notes.get("description") or "",
        )


def _cannot_fire(deployment: Deployment, groups: Sequence[Mapping[str, Any]]) -> Row | None:
    """Return what keeps alerts of the deployment from firing: without a rule that works, none fires whatever happens."""
    rules = [
        rule
        for group in groups
        for rule in group["rules"]
        if rule.get("type") == "alerting" and rule.get("labels", {}).get("deployment") == deployment.name
    ]
    if not rules:
        detail = "the workspace has no rule of this deployment, so that no alert can fire"
        return Row(kind="alerts", name="rules", state=State.ILL, word="absent", detail=detail)
    failing = [rule for rule in rules if rule.get("health") == "err"]
    if failing:
        word = f"{len(failing)} of {len(rules)} cannot be evaluated"
        detail = f"`{failing[0].get('name')}`: {failing[0].get('lastError', 'no reason is given')}"
        return Row(kind="alerts", name="rules", state=State.ILL, word=word, detail=detail)
    return None


def _workspace_url(deployment: Deployment, outside: Outside) -> str | None:
    for stack in tagged_stacks(deployment, outside):
        for output in stack.get("Outputs", ()):
            if output["OutputKey"] == Binding.AMP_WORKSPACE_URL.output_key:
                return str(output["OutputValue"])
    return None
