"""DPD-K8S-007: no code from the model's repository is run."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-K8S-007",
    severity=Severity.WARNING,
    title="`trust_remote_code` is off",
    sources=("vLLM documentation, security", "OWASP LLM03 supply chain"),
)
def no_remote_code(deployment: Deployment) -> Iterator[Problem]:
    """The repository's Python code runs in the worker, as root, with its credentials for the bucket."""
    if deployment.model.trust_remote_code:
        yield Problem(
            path="model.trust_remote_code",
            says="code from the model's repository runs in the workers",
            given="`trust_remote_code: true`",
            fix="remove it, or read the code at `model.revision` and acknowledge the warning",
        )
