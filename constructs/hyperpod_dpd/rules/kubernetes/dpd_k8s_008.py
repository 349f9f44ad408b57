"""DPD-K8S-008: somebody builds the load balancer."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-K8S-008",
    severity=Severity.ERROR,
    title="a load balancer goes with a load balancer controller",
    sources=("AWS Load Balancer Controller documentation",),
)
def load_balancer_has_a_controller(deployment: Deployment) -> Iterator[Problem]:
    """An Ingress without a controller is accepted and never gets an address."""
    if deployment.routing.load_balancer is not None and not deployment.platform.has_load_balancer_controller:
        yield Problem(
            path="routing.load_balancer",
            says="no controller builds this load balancer",
            given="`load_balancer` without `platform.inference_operator` and `platform.load_balancer_controller`",
            fix="set `platform.load_balancer_controller: true` where one is installed, or remove `load_balancer`",
        )
