"""DPD-SRV-424: the limits of scaling go together."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-424",
    severity=Severity.ERROR,
    title="scaling limits are in order, and the replicas lie between them",
    sources=("kedacore/keda config/crd (minReplicaCount must not exceed maxReplicaCount)",),
)
def scaling_limits_are_in_order(deployment: Deployment) -> Iterator[Problem]:
    """The API server refuses limits that cross; replicas outside of them are changed in the first minute."""
    for role in ROLES:
        worker = deployment.serving.worker(role)
        scaling = worker.scaling
        if scaling is None:
            continue
        if scaling.minimum > scaling.maximum:
            yield Problem(
                path=f"serving.{role.value}.scaling",
                says="the fewest replicas are more than the most",
                given=f"`minimum: {scaling.minimum}`, `maximum: {scaling.maximum}`",
                fix="exchange them",
            )
        elif not scaling.minimum <= worker.replicas <= scaling.maximum:
            yield Problem(
                path=f"serving.{role.value}.replicas",
                says=f"the {role.value} replicas lie outside of the limits of their scaling",
                given=f"`replicas: {worker.replicas}`",
                limit=f"{scaling.minimum} to {scaling.maximum}",
                fix="set `replicas` to what should run while nothing is known about the load",
            )
    ratio = deployment.serving.prefillers_per_decoder
    if ratio.minimum > ratio.maximum:
        yield Problem(
            path="serving.prefillers_per_decoder",
            says="the fewest prefillers per decoder are more than the most",
            given=f"`minimum: {ratio.minimum:g}`, `maximum: {ratio.maximum:g}`",
            fix="exchange them",
        )
