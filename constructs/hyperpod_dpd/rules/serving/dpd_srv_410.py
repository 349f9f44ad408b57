"""DPD-SRV-410: the operator backend takes nothing that it would ignore."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES, self_managed
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-410",
    severity=Severity.ERROR,
    title="on the operator backend no role has an environment of its own",
    sources=(
        "aws/sagemaker-hyperpod-cli charts/inference-operator (pdSpec has no env and no image per role)",
    ),
    facts=("R10",),
)
def operator_ignores_nothing(deployment: Deployment) -> Iterator[Problem]:
    """`pdSpec` has no environment per role: what cannot be said would silently not exist."""
    if self_managed(deployment):
        return
    for role in ROLES:
        variables = deployment.serving.worker(role).environment
        if variables:
            yield Problem(
                path=f"serving.{role.value}.environment",
                says=f"the operator has no environment for {role.value} workers alone",
                given=", ".join(f"`{name}`" for name in variables),
                fix="remove it, or use `backend: self-managed`",
            )
