"""Write `docs/reference/alerts.md`: every alert of the default deployment, with its expression and its runbook."""

from collections.abc import Iterator
from pathlib import Path

from hyperpod_dpd.observability.rules import ABOUT_MISSING_WORKERS, Alert, Recording, rule_groups
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import load

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "alerts.md"
DEPLOYMENT = ROOT / "deployments" / "llama-3.3-70b-p5.yaml"

INTRODUCTION = """\
# Alerts

Generated from the code; numbers and expressions are those of `{file}`.
Limits follow from a deployment's `slo`, `routing` and `serving`. The same rules are a `PrometheusRule` where a
Prometheus operator scrapes, and the data of a rule groups namespace of Amazon Managed Service for Prometheus otherwise.
A baseline has the alerts that need no hand-off, and `DpdColocatedWorkersMissing`; with several decoders there is
`DpdDecodeWorkersMissing`.
"""


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    deployment = load(DEPLOYMENT).deployment
    intro = INTRODUCTION.format(file=DEPLOYMENT.relative_to(ROOT))
    return "\n".join((intro, *_alerts(deployment), *_recordings(deployment)))


def _alerts(deployment: Deployment) -> Iterator[str]:
    for group in rule_groups(deployment):
        for alert in group.alerts:
            yield from _alert(alert)


def _alert(alert: Alert) -> Iterator[str]:
    yield f"## {alert.name}\n"
    yield f"*{alert.severity.value}, after {alert.pending}*: {alert.description}"
    if alert.name in ABOUT_MISSING_WORKERS:
        yield "Not told while [`platform.nights_off`](../how-to/upgrade.md#number-of-nodes) keeps the nodes away."
    yield f"[Runbook](../runbooks/{alert.name}.md)\n"
    yield f"> {alert.summary}\n"
    yield f"```promql\n{alert.expression}\n```\n"


def _recordings(deployment: Deployment) -> Iterator[str]:
    yield "## Recordings\n"
    for group in rule_groups(deployment):
        for rule in group.rules:
            if isinstance(rule, Recording):
                yield f"- `{rule.name}`"
    yield ""


if __name__ == "__main__":
    main()
