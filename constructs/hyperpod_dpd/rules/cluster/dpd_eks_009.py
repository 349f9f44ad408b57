"""DPD-EKS-009: versions are given for add-ons that exist."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.eks import addons
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.violation import close_to


@deployment_rule(
    "DPD-EKS-009",
    severity=Severity.ERROR,
    title="`addon_versions` names add-ons that this project installs",
    sources=(
        "SageMaker DG sagemaker-hyperpod-model-deployment-setup",
        "kubernetes-sigs/aws-ebs-csi-driver PR 2601",
    ),
    facts=("P10", "P27"),
)
def addon_names_are_known(deployment: Deployment) -> Iterator[Problem]:
    """A misspelt add-on would keep its old version without a word."""
    known = [row.name for row in addons()]
    for name in deployment.cluster.addon_versions or {}:
        if name not in known:
            yield Problem(
                path=f"cluster.addon_versions.{name}",
                says="this project installs no such add-on",
                given=f"`{name}`",
                limit=", ".join(known),
                fix=close_to(name, known) or "remove it",
            )
