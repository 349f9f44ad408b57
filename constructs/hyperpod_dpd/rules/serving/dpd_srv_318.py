"""DPD-SRV-318: huge pages are whole pages."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-318",
    severity=Severity.ERROR,
    title="`huge_pages_mib` is a multiple of 2",
    sources=("Kubernetes: a huge-page request is a multiple of the page size",),
    facts=("E12",),
)
def huge_pages_are_whole(deployment: Deployment) -> Iterator[Problem]:
    """The API server refuses a pod that asks for half a page."""
    pages = deployment.serving.huge_pages_mib
    if pages % 2:
        yield Problem(
            path="serving.huge_pages_mib",
            says="half a huge page",
            given=f"`huge_pages_mib: {pages}`",
            limit="pages of 2 MiB",
            fix=f"set `huge_pages_mib: {pages + 1}`",
        )
