"""DPD-SRV-312: huge pages that the nodes have."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-312",
    severity=Severity.WARNING,
    title="huge pages are known to be reserved on the nodes",
    sources=("Dynamo EFA guide (5120 MiB)", "awslabs/libfabric-ci-scripts PR 122 (sized at install)"),
    facts=("E12",),
)
def huge_pages_are_reserved(deployment: Deployment) -> Iterator[Problem]:
    """How many pages HyperPod's image reserves is not published; a worker that asks for more stays pending."""
    pages = deployment.serving.huge_pages_mib
    if pages:
        yield Problem(
            path="serving.huge_pages_mib",
            says="it is not published how many huge pages the nodes reserve",
            given=f"`huge_pages_mib: {pages}`",
            fix="remove it, or read `hugepages-2Mi` of a node (`kubectl describe node`) and acknowledge the warning",
        )
