"""PRE-NET-004: the subnets of the existing VPC have room for what is put into them."""

import math
from collections.abc import Iterator

from botocore.exceptions import ClientError

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.system_nodes import system_instance
from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.preflight.published import PUBLISHED_CALL, published
from hyperpod_dpd.preflight.vpc import (
    SUBNETS_CALL,
    existing_vpc,
    made_endpoints,
    named_subnets,
    subnets,
    uses_existing_vpc,
)
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment, ExistingVpc
from hyperpod_dpd.spec.value import record

_CONTROL_PLANE = 6
"""Addresses that EKS must find free in each of its subnets (EKS user guide, network requirements; it recommends 16)."""

_LOAD_BALANCER = 8
"""Addresses that ELB must find free in each of its subnets (ELB user guide, subnets for Application Load Balancers)."""


@record
class _Need:
    subnet_id: str
    count: int
    each: int
    what: str

    @property
    def addresses(self) -> int:
        return self.count * self.each

    def __str__(self) -> str:
        return f"{self.count} × {self.each} ({self.what})"


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    network, existing = deployment.network, existing_vpc(deployment)
    needs = list(_gpu_nodes(deployment, existing, account))
    if not published(deployment, account, Parameter.EKS_NAME):
        # afterwards what these take is not free any more
        needs += _cluster(deployment, existing)
        yield from _unknown_nodes(deployment)
    rows = subnets(account, existing, network)
    paths = {named.subnet_id: named.path for named in reversed(named_subnets(network, existing))}
    for subnet_id, row in rows.items():
        terms = [need for need in needs if need.subnet_id == subnet_id and need.addresses]
        total, free = sum(need.addresses for need in terms), row["AvailableIpAddressCount"]
        if total > free:
            yield Problem(
                path=paths[subnet_id],
                says="the subnet of the existing VPC has too few free addresses",
                given=f"`{subnet_id}` ({row['CidrBlock']})",
                computed=f"{' + '.join(map(str, terms))} = {total:,} addresses",
                limit=f"{free:,} free",
                fix="name a larger subnet: the CIDR of a subnet cannot be changed",
            )


def _unknown_nodes(deployment: Deployment) -> Iterator[Gap]:
    name = deployment.cluster.system_nodes.instance_type
    if system_instance(name) is None:
        yield Gap(
            what="the addresses of the system nodes",
            why=f"the catalog does not have `{name}`",
            fix="look at the free addresses of `network.existing.system_subnet_ids` by hand",
        )


def _gpu_nodes(deployment: Deployment, existing: ExistingVpc, account: Account) -> Iterator[_Need]:
    """Yield what the nodes take that are still missing."""
    try:
        cluster = account.client("sagemaker").describe_cluster(ClusterName=deployment.cluster_name)
    except ClientError as error:
        if code_of(error) not in ("ResourceNotFound", "ValidationException"):
            raise
        cluster = {}
    running = {
        group["InstanceGroupName"]: group.get("CurrentCount", 0)
        for group in cluster.get("InstanceGroups", ())
    }
    for group in deployment.hyperpod.instance_groups:
        yield _Need(
            subnet_id=existing.gpu_subnet_id,
            count=max(group.count - running.get(group.name, 0), 0),
            each=instance_type(group.instance_type).addresses_per_node,
            what=f"nodes of `{group.name}`",
        )


def _cluster(deployment: Deployment, existing: ExistingVpc) -> Iterator[_Need]:
    network, system = deployment.network, deployment.cluster.system_nodes
    for subnet_id in existing.control_plane_subnet_ids:
        yield _Need(subnet_id=subnet_id, count=1, each=_CONTROL_PLANE, what="control plane")
    row = system_instance(system.instance_type)
    nodes = math.ceil(system.maximum / len(existing.system_subnet_ids))
    for subnet_id in existing.system_subnet_ids:
        if row is not None:
            # each pod has an address of the subnet
            yield _Need(subnet_id=subnet_id, count=nodes, each=row.max_pods, what="system nodes")
    elsewhere = (existing.gpu_subnet_id,) if network.gpu_zone_is_apart else ()
    made = len(made_endpoints(deployment))
    for subnet_id in (*existing.system_subnet_ids, *elsewhere) if made else ():
        yield _Need(subnet_id=subnet_id, count=made, each=1, what="interface endpoints")
    for subnet_id in existing.balancer_subnet_ids if deployment.routing.load_balancer else ():
        yield _Need(subnet_id=subnet_id, count=1, each=_LOAD_BALANCER, what="load balancer")


CHECK = Check(
    id="PRE-NET-004",
    title="the subnets of the existing VPC have free addresses for nodes, control plane and endpoints",
    calls=(SUBNETS_CALL, PUBLISHED_CALL, Call(service="sagemaker", operation="DescribeCluster")),
    look=_look,
    applies=lambda deployment: uses_existing_vpc(deployment) and creates_cluster(deployment),
)
