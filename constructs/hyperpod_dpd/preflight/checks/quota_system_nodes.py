"""PRE-QUO-005: the account may run the system nodes; a fresh account has five vCPUs."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.quotas import STANDARD_VCPUS
from hyperpod_dpd.catalog.system_nodes import system_instance
from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.published import PUBLISHED_CALL, published
from hyperpod_dpd.preflight.quota import QUOTA_CALLS, shortage
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

_STANDARD_FAMILIES = tuple("acdhimrtz")
# families that begin with one of these letters and have quotas of their own
_OTHER_FAMILIES = ("dl", "hpc", "inf", "mac", "trn")


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    if published(deployment, account, Parameter.EKS_NAME):
        return  # the nodes run, and are counted as used
    nodes = deployment.cluster.system_nodes
    row = system_instance(nodes.instance_type)
    if row is None:
        yield Gap(
            what=f"the vCPUs of {nodes.count} × `{nodes.instance_type}`",
            why="the catalog does not know how many this type has",
            fix=f"compare them with {STANDARD_VCPUS} in the Service Quotas console",
        )
        return
    problem = shortage(
        account,
        STANDARD_VCPUS,
        path="cluster.system_nodes",
        given=f"{nodes.count} × `{nodes.instance_type}` with {row.vcpus} vCPUs",
        needed=nodes.count * row.vcpus,
        used=_running_vcpus(account),
    )
    if problem is not None:
        yield problem


def _running_vcpus(account: Account) -> int:
    pages = (
        account.client("ec2")
        .get_paginator("describe_instances")
        .paginate(Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}])
    )
    instances = [row for page in pages for group in page["Reservations"] for row in group["Instances"]]
    return sum(
        instance["CpuOptions"]["CoreCount"] * instance["CpuOptions"]["ThreadsPerCore"]
        for instance in instances
        if _is_standard(instance["InstanceType"]) and instance.get("InstanceLifecycle") != "spot"
    )


def _is_standard(name: str) -> bool:
    return name.startswith(_STANDARD_FAMILIES) and not name.startswith(_OTHER_FAMILIES)


CHECK = Check(
    id="PRE-QUO-005",
    title="quotas allow the system nodes",
    calls=(*QUOTA_CALLS, PUBLISHED_CALL, Call(service="ec2", operation="DescribeInstances")),
    look=_look,
    applies=creates_cluster,
)
