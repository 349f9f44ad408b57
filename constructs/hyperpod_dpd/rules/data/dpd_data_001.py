"""DPD-DATA-001: deleting data takes two acts that agree."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-DATA-001",
    severity=Severity.ERROR,
    title="data may be deleted only when `delete_data_on_destroy` is set and `confirm` repeats the deployment's name",
    sources=("this project: stateful resources are retained unless two deliberate acts say otherwise",),
)
def removal_takes_two_acts(deployment: Deployment) -> Iterator[Problem]:
    """One act alone is a slip of the hand, and what it would delete cannot be brought back."""
    removal, name = deployment.removal, deployment.name
    if removal.delete_data_on_destroy and removal.confirm != name:
        yield Problem(
            path="removal.confirm" if removal.confirm is not None else "removal.delete_data_on_destroy",
            says="deleting data is not confirmed",
            given=f"`confirm: {removal.confirm}`" if removal.confirm is not None else "no `confirm`",
            limit=f"`confirm: {name}`",
            fix="repeat the deployment's name, or remove `delete_data_on_destroy`",
        )
    elif removal.confirm is not None and not removal.delete_data_on_destroy:
        yield Problem(
            path="removal.confirm",
            says="a confirmation of nothing",
            given=f"`confirm: {removal.confirm}` without `delete_data_on_destroy: true`",
            fix="remove `confirm`, or set `delete_data_on_destroy: true`",
        )
