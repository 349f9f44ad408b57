"""DPD-NET-011: a closed network has interface endpoints."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-011",
    severity=Severity.ERROR,
    title="a closed network has interface endpoints",
    sources=("awsome-distributed-ai TF modules/vpc_endpoints, closed-network.tfvars",),
)
def closed_network_has_endpoints(deployment: Deployment) -> Iterator[Problem]:
    """Without NAT and without endpoints no node reaches EC2, ECR, STS or EKS, and none ever joins."""
    network = deployment.network
    if network.existing is not None:
        # its owner may have them, there or behind a transit gateway: only the account knows
        return
    if network.egress == "closed" and not network.has_interface_endpoints:
        yield Problem(
            path="network.interface_endpoints",
            says="a closed network without a way to AWS",
            given="`egress: closed` with `interface_endpoints: false`",
            fix="remove `interface_endpoints`: a closed network gets them by itself",
        )
