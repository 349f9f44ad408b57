"""PRE-NAM-001: the names that the deployment gives are still free."""

from collections.abc import Iterator

from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call, arn
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.failure import is_there
from hyperpod_dpd.preflight.published import PUBLISHED_CALL, published
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

_ABSENT = ("ResourceNotFound", "ResourceNotFoundException", "ValidationException")


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    if not published(deployment, account, Parameter.EKS_NAME):
        name = deployment.name
        if is_there(lambda: account.client("eks").describe_cluster(name=name), absent=_ABSENT):
            yield _taken("name", "EKS cluster", name, "choose another `name`, or delete that cluster")
    if published(deployment, account, Parameter.HYPERPOD_ARN):
        return
    name = deployment.cluster_name
    if is_there(lambda: account.client("sagemaker").describe_cluster(ClusterName=name), absent=_ABSENT):
        yield _taken(
            "hyperpod.cluster_name",
            "HyperPod cluster",
            name,
            "choose another `hyperpod.cluster_name`; deleting that cluster gives its capacity away",
        )


def _taken(path: str, kind: str, name: str, fix: str) -> Problem:
    return Problem(
        path=path,
        says=f"the name of the {kind} is taken by something that this deployment did not create",
        given=f"`{name}`",
        fix=fix,
    )


CHECK = Check(
    id="PRE-NAM-001",
    title="names of clusters are free",
    calls=(
        PUBLISHED_CALL,
        Call(
            service="eks",
            operation="DescribeCluster",
            on=lambda deployment: (arn(deployment, "eks", f"cluster/{deployment.name}"),),
        ),
        Call(service="sagemaker", operation="DescribeCluster"),
    ),
    look=_look,
    applies=creates_cluster,
)
