"""DPD-K8S-006: network policies are enforced."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-K8S-006",
    severity=Severity.WARNING,
    title="the cluster enforces the network policies that are rendered",
    sources=("Amazon VPC CNI documentation (`enableNetworkPolicy`)", "vllm-project/vllm issue 29922"),
    facts=("H13",),
)
def policies_are_enforced(deployment: Deployment) -> Iterator[Problem]:
    """Without enforcement every pod of the cluster reaches the workers, which ask nobody for a key."""
    if deployment.platform.network_policies == "rendered-only":
        yield Problem(
            path="platform.network_policies",
            says="network policies are rendered and have no effect",
            given="`network_policies: rendered-only`",
            fix="set `network_policies: enforced`, or acknowledge the warning with what enforces them instead",
        )
