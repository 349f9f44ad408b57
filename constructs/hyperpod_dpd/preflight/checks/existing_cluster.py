"""PRE-EKS-003: the existing cluster is one that HyperPod and this deployment can use."""

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from hyperpod_dpd.catalog.eks import addon, addon_version_key, kubernetes_versions
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call, arn
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment, ExistingCluster

_PATH = "cluster.existing"
_MODES = ("API", "API_AND_CONFIG_MAP")
_CNI = "vpc-cni"


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    existing = deployment.cluster.existing
    assert existing is not None, "applies only with an existing cluster"
    try:
        cluster = account.client("eks").describe_cluster(name=existing.eks_name)["cluster"]
    except ClientError as error:
        if code_of(error) != "ResourceNotFoundException":
            raise
        yield _absent("eks_name", "EKS", existing.eks_name, "aws eks list-clusters", deployment)
    else:
        yield from _control_plane(deployment, cluster)
        yield from _network_plugin(existing, account)
    yield from _hyperpod(deployment, existing, account)


def _absent(key: str, kind: str, name: str, command: str, deployment: Deployment) -> Problem:
    return Problem(
        path=f"{_PATH}.{key}",
        says=f"the region has no such {kind} cluster",
        given=f"`{key}: {name}`",
        fix=f"`{command} --region {deployment.region}` lists those there are",
    )


def _control_plane(deployment: Deployment, cluster: dict[str, Any]) -> Iterator[Problem]:
    path, name = f"{_PATH}.eks_name", cluster["name"]
    if cluster["status"] != "ACTIVE":
        yield Problem(
            path=path,
            says="the EKS cluster is not active",
            given=f"`{name}`",
            computed=f"status `{cluster['status']}`",
            limit="`ACTIVE`",
            fix="wait until it is, or mend it",
        )
    mode = cluster.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    if mode not in _MODES:
        yield Problem(
            path=path,
            says="HyperPod does not work with the authentication mode of the EKS cluster",
            given=f"`{name}`",
            computed=f"`{mode}`",
            limit=" or ".join(f"`{each}`" for each in _MODES),
            fix=f"`aws eks update-cluster-config --name {name} --access-config "
            "authenticationMode=API_AND_CONFIG_MAP`; there is no way back",
        )
    supported = [row.version for row in kubernetes_versions()]
    if cluster["version"] not in supported:
        yield Problem(
            path=path,
            says="HyperPod does not support the Kubernetes version of the EKS cluster",
            given=f"`{name}`",
            computed=f"Kubernetes {cluster['version']}",
            limit=f"{supported[0]} to {supported[-1]}",
            fix="use another cluster, or upgrade this one",
        )
    elif cluster["version"] != deployment.cluster.kubernetes_version:
        yield Problem(
            path="cluster.kubernetes_version",
            says="the EKS cluster has another Kubernetes version than the deployment says",
            given=f'`kubernetes_version: "{deployment.cluster.kubernetes_version}"`',
            computed=f"`{name}` has {cluster['version']}",
            fix=f'write `kubernetes_version: "{cluster["version"]}"`: manifests and add-ons follow it',
        )


def _network_plugin(existing: ExistingCluster, account: Account) -> Iterator[Problem | Gap]:
    floor = addon(_CNI).floor
    assert floor is not None, "HyperPod names a floor"
    path = f"{_PATH}.eks_name"
    try:
        row = account.client("eks").describe_addon(clusterName=existing.eks_name, addonName=_CNI)["addon"]
    except ClientError as error:
        if code_of(error) != "ResourceNotFoundException":
            raise
        yield Gap(
            what=f"the version of the VPC CNI of `{existing.eks_name}`",
            why="it is not installed as an EKS add-on",
            fix=f"compare the image of the DaemonSet `aws-node` with {floor}; HyperPod takes no other network plugin",
        )
        return
    if addon_version_key(row["addonVersion"]) < addon_version_key(floor):
        yield Problem(
            path=path,
            says="the VPC CNI of the EKS cluster is too old for HyperPod",
            given=f"`{existing.eks_name}`",
            computed=f"`{_CNI}` {row['addonVersion']}",
            limit=f"at least {floor}",
            fix=f"`aws eks update-addon --cluster-name {existing.eks_name} --addon-name {_CNI}`",
        )


def _hyperpod(deployment: Deployment, existing: ExistingCluster, account: Account) -> Iterator[Problem]:
    name = existing.hyperpod_name
    try:
        cluster = account.client("sagemaker").describe_cluster(ClusterName=name)
    except ClientError as error:
        if code_of(error) not in ("ResourceNotFound", "ValidationException"):
            raise
        yield _absent("hyperpod_name", "HyperPod", name, "aws sagemaker list-clusters", deployment)
        return
    path = f"{_PATH}.hyperpod_name"
    if cluster["ClusterStatus"] not in ("InService", "Updating", "SystemUpdating"):
        yield Problem(
            path=path,
            says="the HyperPod cluster is not in service",
            given=f"`{name}`",
            computed=f"status `{cluster['ClusterStatus']}`"
            + (f": {cluster['FailureMessage']}" if cluster.get("FailureMessage") else ""),
            limit="`InService`",
            fix="mend it first; a cluster that failed can only be deleted",
        )
    eks = cluster.get("Orchestrator", {}).get("Eks", {}).get("ClusterArn", "")
    if not eks.endswith(f":cluster/{existing.eks_name}"):
        yield Problem(
            path=path,
            says="the HyperPod cluster belongs to another EKS cluster",
            given=f"`hyperpod_name: {name}` with `eks_name: {existing.eks_name}`",
            computed=f"its orchestrator is `{eks or 'Slurm'}`",
            fix="name the pair that belongs together",
        )


def _eks_arn(deployment: Deployment) -> tuple[str, ...]:
    existing = deployment.cluster.existing
    return (arn(deployment, "eks", f"cluster/{existing.eks_name}"),) if existing else ()


def _addon_arn(deployment: Deployment) -> tuple[str, ...]:
    existing = deployment.cluster.existing
    return (arn(deployment, "eks", f"addon/{existing.eks_name}/{_CNI}/*"),) if existing else ()


CHECK = Check(
    id="PRE-EKS-003",
    title="the existing cluster suits HyperPod and the deployment",
    calls=(
        Call(service="eks", operation="DescribeCluster", on=_eks_arn),
        # the request names the cluster, too
        Call(service="eks", operation="DescribeAddon", on=lambda each: (*_eks_arn(each), *_addon_arn(each))),
        # HyperPod clusters are known by an id that their name does not tell
        Call(service="sagemaker", operation="DescribeCluster"),
    ),
    look=_look,
    applies=lambda deployment: not creates_cluster(deployment),
)
