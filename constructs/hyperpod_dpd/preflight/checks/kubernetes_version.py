"""PRE-EKS-001: EKS offers the Kubernetes version."""

from collections.abc import Iterator

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    pages = account.client("eks").get_paginator("describe_cluster_versions").paginate(includeAll=True)
    states = {
        row["clusterVersion"]: row.get("versionStatus") or row["status"].upper().replace("-", "_")
        for page in pages
        for row in page["clusterVersions"]
    }
    version = deployment.cluster.kubernetes_version
    state = states.get(version)
    offered = sorted((each for each, its_state in states.items() if its_state != "UNSUPPORTED"), key=_numbers)
    if state is None or state == "UNSUPPORTED":
        yield Problem(
            path="cluster.kubernetes_version",
            says="EKS does not offer the Kubernetes version here",
            given=f'`kubernetes_version: "{version}"`',
            computed="EKS no longer supports it" if state else "EKS does not know it in this region",
            limit="offered: " + ", ".join(offered),
            fix="choose one of these that HyperPod supports, too (`dpd explain DPD-EKS-006`)",
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


CHECK = Check(
    id="PRE-EKS-001",
    title="EKS offers the Kubernetes version",
    calls=(Call(service="eks", operation="DescribeClusterVersions"),),
    look=_look,
    applies=creates_cluster,
)
