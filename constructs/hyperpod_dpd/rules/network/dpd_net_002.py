"""DPD-NET-002: no way to the internet where endpoints exist."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-002",
    severity=Severity.WARNING,
    title="nodes have no way to the internet where interface endpoints exist",
    sources=(
        "cdk-nag AwsSolutions-EC23, the same thought for egress",
        "TF closed-network.tfvars of awsome-distributed-ai",
    ),
)
def no_open_egress_beside_endpoints(deployment: Deployment) -> Iterator[Problem]:
    """Endpoints that are paid for keep traffic inside only when the NAT route and 0.0.0.0/0 egress are gone."""
    network = deployment.network
    if network.egress == "nat" and network.has_interface_endpoints:
        yield Problem(
            path="network.interface_endpoints",
            says="interface endpoints beside an open way to the internet",
            given="`egress: nat` with `interface_endpoints: true`",
            fix="set `network.egress: closed`, or acknowledge what still needs the internet",
        )
