"""DPD-SPEC-003: the region is one with HyperPod on EKS."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.regions import regions
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.violation import close_to


@deployment_rule(
    "DPD-SPEC-003",
    severity=Severity.ERROR,
    title="the region is one in which HyperPod runs on EKS",
    sources=(
        "aws/sagemaker-hyperpod-cli health-monitoring-agent chart (a registry account for each region)",
    ),
)
def region_is_known(deployment: Deployment) -> Iterator[Problem]:
    """In another region HyperPod's health agent has no image, so no node is ever healthy."""
    known = [row.name for row in regions()]
    if deployment.region not in known:
        yield Problem(
            path="region",
            says="HyperPod on EKS is not in this region",
            given=f"`region: {deployment.region}`",
            limit=", ".join(known),
            fix=close_to(deployment.region, known) or "choose one of these",
        )
