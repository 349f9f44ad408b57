"""DPD-K8S-012: every custom kind has its definition on the cluster."""

from collections.abc import Iterator

from hyperpod_dpd.derive.custom_resources import custom_kinds, declared_groups
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-K8S-012",
    severity=Severity.ERROR,
    title="the platform section declares the API group of every custom kind that is rendered",
    sources=("Kubernetes API server: no matches for kind",),
)
def custom_kinds_are_declared(deployment: Deployment) -> Iterator[Problem]:
    """The release fails half-way at the first object whose kind nobody knows."""
    declared = declared_groups(deployment.platform)
    for kind in custom_kinds(deployment):
        if kind.group not in declared:
            yield Problem(
                path=kind.path,
                says=f"no kind `{kind.kind}` is on the cluster",
                given=f"`{kind.path}` without `{kind.declared_by}`",
                computed=f"API group `{kind.group}`",
                fix=f"install it and set `{kind.declared_by}` or `platform.custom_resources`, or {kind.otherwise}",
            )
