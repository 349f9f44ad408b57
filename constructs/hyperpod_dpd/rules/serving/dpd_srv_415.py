"""DPD-SRV-415: the self-managed backend takes nothing that only the operator reads."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.settings import changed, shown
from hyperpod_dpd.rules.serving.subjects import self_managed
from hyperpod_dpd.spec import Deployment, OperatorEndpoint

OPERATOR_ONLY: Final = (
    "routing.policy",
    "serving.instance_cache",
    *(f"serving.operator.{field.name}" for field in fields(OperatorEndpoint)),
)
"""Settings that the self-managed renderings do not look at."""


@deployment_rule(
    "DPD-SRV-415",
    severity=Severity.ERROR,
    title="on the self-managed backend no setting is given that only the operator reads",
    sources=("this project: a value that a backend cannot express is refused",),
)
def self_managed_ignores_nothing(deployment: Deployment) -> Iterator[Problem]:
    """The project's own workers and router have no such setting: it would silently not exist."""
    if not self_managed(deployment):
        return
    for path in OPERATOR_ONLY:
        if changed(deployment, path):
            yield Problem(
                path=path,
                says="only the operator backend has this setting",
                given=shown(deployment, path),
                fix="remove it, or use `backend: operator`",
            )
