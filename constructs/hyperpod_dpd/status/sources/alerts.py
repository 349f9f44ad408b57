"""Alerts that fire, from Amazon Managed Service for Prometheus."""

from collections.abc import Iterator
from urllib.error import HTTPError

from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.status.observation import Answer, Row, State, Unseen
from hyperpod_dpd.status.outside import Outside
from hyperpod_dpd.status.sources.stacks import tagged_stacks

_FORBIDDEN = 403
_SERVICE = "aps"


def alerts(deployment: Deployment, outside: Outside) -> Iterator[Answer]:
    """Yield a row per alert that is pending or firing; one that says so when there is none."""
    url = _workspace_url(deployment, outside)
    if url is None:
        yield Unseen(
            what="alerts",
            why=f"no stack has an output `{Binding.AMP_WORKSPACE_URL.output_key}` with a Prometheus workspace",
            skipped=True,
        )
        return
    try:
        found = outside.signed(f"{url.rstrip('/')}/api/v1/alerts", _SERVICE)["data"]["alerts"]
    except HTTPError as error:
        needs = "aps:ListAlerts" if error.code == _FORBIDDEN else None
        why = f"needs `{needs}`" if needs else f"the workspace answers {error.code} {error.reason}"
        yield Unseen(what="alerts", why=why, needs=needs)
        return
    except OSError as error:
        yield Unseen(what="alerts", why=f"the workspace does not answer: {getattr(error, 'reason', error)}")
        return
    for alert in found:
        labels, notes = alert.get("labels", {}), alert.get("annotations", {})
        yield Row(
            kind="alert",
            name=labels.get("alertname", "unnamed"),
            state=State.ILL if alert.get("state") == "firing" else State.BUSY,
            word=str(alert.get("state", "unknown")),
            detail=notes.get("summary") or notes.get("description") or "",
        )
    if not found:
        yield Row(kind="alerts", name="all", state=State.WELL, word="0 firing")


def _workspace_url(deployment: Deployment, outside: Outside) -> str | None:
    for stack in tagged_stacks(deployment, outside):
        for output in stack.get("Outputs", ()):
            if output["OutputKey"] == Binding.AMP_WORKSPACE_URL.output_key:
                return str(output["OutputValue"])
    return None
