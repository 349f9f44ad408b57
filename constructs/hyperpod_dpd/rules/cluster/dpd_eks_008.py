"""DPD-EKS-008: the Kubernetes version is in standard support."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.eks import DEFAULT_KUBERNETES_VERSION, kubernetes_versions
from hyperpod_dpd.rules.cluster.today import today
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-008",
    severity=Severity.WARNING,
    title="the Kubernetes version is in standard support",
    sources=("EKS user guide, kubernetes-versions (extended support is charged per cluster and hour)",),
)
def version_is_in_standard_support(deployment: Deployment) -> Iterator[Problem]:
    """Extended support costs several times the price of the control plane."""
    date = today()
    for row in kubernetes_versions():
        in_extended_support = row.end_of_standard_support <= date < row.end_of_extended_support
        if row.version == deployment.cluster.kubernetes_version and in_extended_support:
            yield Problem(
                path="cluster.kubernetes_version",
                says="this Kubernetes version is in extended support",
                given=f"`kubernetes_version: {row.version}` on {date}",
                limit=f"standard support ended on {row.end_of_standard_support}",
                fix=f'set `kubernetes_version: "{DEFAULT_KUBERNETES_VERSION}"` or acknowledge the cost',
            )
