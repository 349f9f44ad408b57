"""DPD-K8S-009: the load balancer waits as long as an answer may take."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

LONGEST_IDLE_SECONDS: Final = 4000


@deployment_rule(
    "DPD-K8S-009",
    severity=Severity.ERROR,
    title="`longest_generation_seconds` is within a load balancer's idle timeout",
    sources=("Elastic Load Balancing user guide (idle timeout 1 to 4000 seconds)",),
)
def load_balancer_waits_long_enough(deployment: Deployment) -> Iterator[Problem]:
    """An answer that is not streamed sends nothing until it is complete; the load balancer closes it before."""
    longest = deployment.serving.longest_generation_seconds
    if deployment.routing.load_balancer is not None and longest > LONGEST_IDLE_SECONDS:
        yield Problem(
            path="serving.longest_generation_seconds",
            says="an application load balancer does not wait that long",
            given=f"`longest_generation_seconds: {longest}`",
            limit=f"{LONGEST_IDLE_SECONDS} seconds",
            fix=f"set `longest_generation_seconds: {LONGEST_IDLE_SECONDS}` or less, or remove `routing.load_balancer`",
        )
