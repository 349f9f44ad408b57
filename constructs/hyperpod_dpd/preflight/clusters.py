"""What runs in the account's HyperPod clusters already."""

from collections import Counter

from botocore.exceptions import ClientError

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record

CLUSTER_CALLS = (
    Call(service="sagemaker", operation="ListClusters"),
    Call(service="sagemaker", operation="DescribeCluster"),
)
"""What `usage` calls. The clusters are not known before, so neither are their ARNs."""


@record
class Usage:
    """Instances of the HyperPod clusters that are not this deployment's, by type."""

    on_demand: Counter[str]
    spot: Counter[str]


def usage(deployment: Deployment, account: Account) -> Usage:
    """Return what the other clusters of the region run or want to run.

    A group counts with its target, because HyperPod keeps trying to reach it; a group of a training plan does not
    count, because its capacity has a quota of its own.
    """
    client = account.client("sagemaker")
    found = Usage(on_demand=Counter(), spot=Counter())
    for page in client.get_paginator("list_clusters").paginate():
        for summary in page["ClusterSummaries"]:
            if summary["ClusterName"] == deployment.cluster_name:
                continue
            try:
                cluster = client.describe_cluster(ClusterName=summary["ClusterName"])
            except ClientError as error:
                if code_of(error) == "ResourceNotFound":  # deleted since it was listed
                    continue
                raise
            for group in cluster.get("InstanceGroups", ()):
                if group.get("TrainingPlanArn"):
                    continue
                spot = "Spot" in group.get("CapacityRequirements", {})
                counted = found.spot if spot else found.on_demand
                counted[group["InstanceType"]] += max(
                    group.get("TargetCount", 0), group.get("CurrentCount", 0)
                )
    return found
