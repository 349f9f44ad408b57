"""DPD-SRV-000: everything that the deployment names exists and goes together."""

from collections.abc import Iterator

from hyperpod_dpd.derive import UnresolvedError, resolve
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-000",
    severity=Severity.ERROR,
    title="model, engine, instance types and groups of both roles can be resolved",
    sources=(
        "LMCache/LMCache issue 4247 (models with layers that keep no KV cache)",
        "catalog of this project",
    ),
    facts=("L19",),
)
def everything_resolves(deployment: Deployment) -> Iterator[Problem]:
    """Nothing about the workers can be computed from a name that nobody knows."""
    try:
        resolve(deployment)
    except UnresolvedError as error:
        for obstacle in error.obstacles:
            # DPD-SRV-002 and DPD-HP-001 say these, with the limits
            if obstacle.path != "serving.tensor_parallel" and not obstacle.path.endswith(".instance_type"):
                yield Problem(path=obstacle.path, says=obstacle.says, given=obstacle.given, fix=obstacle.fix)
