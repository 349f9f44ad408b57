"""DPD-K8S-005: workers are not privileged."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-K8S-005",
    severity=Severity.WARNING,
    title="workers get `IPC_LOCK`, not every privilege of the host",
    sources=(
        "llm-d AWS overlay (IPC_LOCK only)",
        "Dynamo EFA guide (privileged)",
        "CIS Kubernetes Benchmark 5.2.2",
    ),
    facts=("E7",),
)
def workers_are_not_privileged(deployment: Deployment) -> Iterator[Problem]:
    """A privileged container is root on the node, with every other deployment's memory and tokens."""
    if deployment.serving.security.workers == "privileged":
        yield Problem(
            path="serving.security.workers",
            says="workers are root on their node",
            given="`workers: privileged`",
            fix="use `workers: ipc-lock`, or acknowledge the warning with the error that EFA gave without it",
        )
