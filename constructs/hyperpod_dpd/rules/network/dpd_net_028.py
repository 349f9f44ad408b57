"""DPD-NET-028: what is named of an existing VPC is used."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.endpoints import endpoint_services
from hyperpod_dpd.catalog.regions import regions
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, ExistingVpc
from hyperpod_dpd.spec.violation import close_to


@deployment_rule(
    "DPD-NET-028",
    severity=Severity.ERROR,
    title="`endpoint_services` and `load_balancer_subnet_ids` of an existing VPC have something to say",
    sources=("this project: a value that would be ignored is refused",),
)
def what_is_named_is_used(deployment: Deployment) -> Iterator[Problem]:
    """A list that nobody reads, or a misspelled service in it, leaves an endpoint or a load balancer elsewhere than meant."""
    existing = deployment.network.existing
    if existing is None:
        return
    if existing.load_balancer_subnet_ids is not None and deployment.routing.load_balancer is None:
        yield Problem(
            path="network.existing.load_balancer_subnet_ids",
            says="subnets of a load balancer that is not made",
            given="`load_balancer_subnet_ids` without `routing.load_balancer`",
            fix="add `routing.load_balancer`, or remove them; the operator finds subnets by their tags",
        )
    if existing.endpoint_services and not deployment.network.has_interface_endpoints:
        yield Problem(
            path="network.existing.endpoint_services",
            says="endpoints that are there, where none are made",
            given="`endpoint_services` without `network.interface_endpoints: true`",
            fix="set `network.interface_endpoints: true` to make the others, or remove the list",
        )
    else:
        yield from _unknown_services(deployment, existing)


def _unknown_services(deployment: Deployment, existing: ExistingVpc) -> Iterator[Problem]:
    row = next((row for row in regions() if row.name == deployment.region), None)
    if row is None:
        return
    known = endpoint_services(row)
    for index, service in enumerate(existing.endpoint_services):
        if service not in known:
            yield Problem(
                path=f"network.existing.endpoint_services[{index}]",
                says="no endpoint of this service is ever made",
                given=f"`{service}`",
                limit=", ".join(f"`{name}`" for name in known),
                fix=close_to(service, known) or "remove it",
            )
