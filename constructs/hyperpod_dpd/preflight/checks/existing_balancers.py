"""PRE-NET-007: the load balancer finds subnets of the existing VPC that hold it."""

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.vpc import SUBNETS_CALL, existing_vpc, subnets, uses_existing_vpc
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

_ROLE = "kubernetes.io/role/internal-elb"
_CLUSTER = "kubernetes.io/cluster/"
_ZONES = 2
_LONGEST_PREFIX = 27
"""ELB user guide, subnets for Application Load Balancers: at least /27."""


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    if deployment.serving.backend == "operator":
        yield from _tagged(deployment, account)
        return
    existing = existing_vpc(deployment)
    rows = subnets(account, existing, deployment.network)
    for subnet_id in existing.balancer_subnet_ids:
        row = rows.get(subnet_id)  # PRE-NET-003 says what is not there
        if row and IPv4Network(row["CidrBlock"]).prefixlen > _LONGEST_PREFIX:
            yield Problem(
                path="network.existing.load_balancer_subnet_ids",
                says="the subnet is too small for a load balancer",
                given=f"`{subnet_id}` ({row['CidrBlock']})",
                limit=f"/{_LONGEST_PREFIX}",
                fix="name a larger subnet of that zone",
            )


def _tagged(deployment: Deployment, account: Account) -> Iterator[Problem]:
    """Look for the subnets that the operator's controller finds by their tags: none can be named to it."""
    existing = existing_vpc(deployment)
    pages = (
        account.client("ec2")
        .get_paginator("describe_subnets")
        .paginate(Filters=[{"Name": "vpc-id", "Values": [existing.vpc_id]}])
    )
    zones = {
        row["AvailabilityZoneId"]
        for page in pages
        for row in page["Subnets"]
        if _is_for_balancers(row, deployment.name)
    }
    if len(zones) < _ZONES:
        ids = " ".join(existing.system_subnet_ids)
        yield Problem(
            path="network.existing.vpc_id",
            says="the operator's load balancer finds no subnets in two zones",
            given=f"`{existing.vpc_id}`",
            computed=f"{len(zones)} zones with subnets tagged `{_ROLE}: 1`",
            limit=f"{_ZONES} zones",
            fix="let the owner of the VPC tag them: "
            f"`aws ec2 create-tags --resources {ids} --tags Key={_ROLE},Value=1`",
        )


def _is_for_balancers(row: dict[str, Any], cluster: str) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in row.get("Tags", ())}
    clusters = {key.removeprefix(_CLUSTER) for key in tags if key.startswith(_CLUSTER)}
    # a subnet that is tagged for other clusters is left to them
    return tags.get(_ROLE) in ("1", "") and (not clusters or cluster in clusters)


CHECK = Check(
    id="PRE-NET-007",
    title="the load balancer has subnets of the existing VPC in two zones, of /27 or larger",
    calls=(SUBNETS_CALL,),
    look=_look,
    applies=lambda deployment: (
        uses_existing_vpc(deployment)
        and (deployment.serving.backend == "operator" or deployment.routing.load_balancer is not None)
    ),
)
