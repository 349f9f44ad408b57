"""DPD-NET-026: an existing VPC has one subnet for each zone of the cluster."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-026",
    severity=Severity.ERROR,
    title="each list of subnets of an existing VPC has one for each zone of the cluster",
    sources=(
        "EKS user guide, network requirements (subnets in at least two zones)",
        "Amazon VPC user guide, interface endpoints (one subnet for each zone)",
        "ELB user guide, subnets for Application Load Balancers (one subnet for each zone, two zones or more)",
    ),
)
def one_subnet_for_each_zone(deployment: Deployment) -> Iterator[Problem]:
    """Nothing is looked up at synthesis, so the order of the zones says where a subnet is."""
    network = deployment.network
    zones = network.cluster_zone_ids
    if network.existing is None:
        return
    for key in ("system_subnet_ids", "cluster_subnet_ids", "load_balancer_subnet_ids"):
        ids: tuple[str, ...] = getattr(network.existing, key) or ()
        path = f"network.existing.{key}"
        if ids and len(ids) != len(zones):
            yield Problem(
                path=path,
                says="another number of subnets than of zones",
                given=f"{len(ids)} in `{key}`",
                limit=f"{len(zones)}: one for each of `cluster_zone_ids: [{', '.join(zones)}]`, in that order",
                fix="name one subnet for each zone",
            )
        for index, subnet_id in enumerate(ids):
            if subnet_id in ids[:index]:
                yield Problem(
                    path=f"{path}[{index}]",
                    says="the subnet is named twice",
                    given=f"`{subnet_id}`",
                    fix="a subnet is in one zone: name the one of the other zone",
                )
