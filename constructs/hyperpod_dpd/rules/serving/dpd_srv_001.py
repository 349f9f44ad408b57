"""DPD-SRV-001: a worker has as many GPUs as it has ranks."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-001",
    severity=Severity.ERROR,
    title="GPUs per worker equal `tensor_parallel`; the EFA devices follow from the GPUs",
    sources=("Dynamo p5 recipe (TP4 with 16 EFA devices)", "awslabs/awsome-distributed-ai issue 519"),
    facts=("E2",),
)
def gpus_equal_ranks(deployment: Deployment) -> Iterator[Problem]:
    """More GPUs than ranks stand idle with their EFA devices, fewer leave a rank without one."""
    ranks = deployment.serving.tensor_parallel
    for role in ROLES:
        gpus = deployment.serving.worker(role).gpus
        if gpus is not None and gpus != ranks:
            yield Problem(
                path=f"serving.{role.value}.gpus",
                says=f"a {role.value} worker's GPUs are not its ranks",
                given=f"`gpus: {gpus}`",
                limit=f"`tensor_parallel: {ranks}`",
                fix="remove `gpus`, it follows from `tensor_parallel`",
            )
