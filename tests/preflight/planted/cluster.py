"""Planted problems of EKS, HyperPod and what watches them."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import EndpointConnectionError

from tests.preflight.aws import Refusal
from tests.preflight.healthy import healthy
from tests.preflight.plant import (
    Call,
    Planted,
    but,
    decision_on,
)


def _from(call: Call, name: str, **changes: Any) -> dict[Call, Any]:
    """Change what a healthy account answers about the cluster `name`."""
    answer: Callable[[Mapping[str, Any]], dict[str, Any]] = healthy()[call]
    key = "name" if call[0] == "eks" else "ClusterName"
    whole = answer({key: name})
    altered = {"cluster": {**whole["cluster"], **changes}} if "cluster" in whole else {**whole, **changes}
    return {call: lambda parameters: altered if parameters[key] == name else answer(parameters)}


def _without_addon(name: str) -> dict[Call, Any]:
    call = ("eks", "DescribeAddonVersions")
    return {call: {"addons": [row for row in healthy()[call]["addons"] if row["addonName"] != name]}}


def _addon(name: str, version: str) -> dict[Call, Any]:
    call = ("eks", "DescribeAddonVersions")
    rows = _without_addon(name)[call]["addons"]
    return {call: {"addons": [*rows, {"addonName": name, "addonVersions": [{"addonVersion": version}]}]}}


def _no_endpoint(_parameters: Mapping[str, Any]) -> Any:
    raise EndpointConnectionError(endpoint_url="https://aps.example")


_SILENT_TOPIC = json.dumps(
    {
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "cloudwatch.amazonaws.com"},
                "Action": "sns:Publish",
            },
            {"Effect": "Deny", "Principal": {"Service": "aps.amazonaws.com"}, "Action": "sns:Publish"},
            {"Effect": "Allow", "Principal": {"Service": "budgets.amazonaws.com"}, "Action": "sns:Subscribe"},
        ]
    }
)

_OPEN_TOPIC = json.dumps({"Statement": {"Effect": "Allow", "Principal": "*", "Action": "SNS:*"}})


PLANTED = {
    "service-linked-role-forbidden": Planted(
        check="PRE-HP-001",
        path="hyperpod",
        answers=decision_on("explicitDeny", action="iam:CreateServiceLinkedRole"),
        says=("AWSServiceRoleForSageMakerHyperPod", "denied: `iam:CreateServiceLinkedRole`"),
    ),
    "kubernetes-not-offered": Planted(
        check="PRE-EKS-001",
        path="cluster.kubernetes_version",
        answers={
            ("eks", "DescribeClusterVersions"): {
                "clusterVersions": [
                    {"clusterVersion": "1.35", "versionStatus": "UNSUPPORTED"},
                    {"clusterVersion": "1.36", "versionStatus": "STANDARD_SUPPORT"},
                ]
            }
        },
        says=('given `kubernetes_version: "1.35"`', "EKS no longer supports it", "limit offered: 1.36"),
    ),
    "addon-not-offered": Planted(
        check="PRE-EKS-002",
        path="cluster.addon_versions.cert-manager",
        answers=_without_addon("cert-manager"),
        says=("`cert-manager` for Kubernetes 1.35 in `us-east-1`",),
    ),
    "addon-version-not-offered": Planted(
        check="PRE-EKS-002",
        path="cluster.addon_versions.amazon-sagemaker-hyperpod-inference",
        answers=_addon("amazon-sagemaker-hyperpod-inference", "v1.2.0-eksbuild.1"),
        says=(
            "`amazon-sagemaker-hyperpod-inference: v1.5.0-eksbuild.1`",
            "newest offered: v1.2.0-eksbuild.1",
        ),
    ),
    "existing-config-map": Planted(
        check="PRE-EKS-003",
        path="cluster.existing.eks_name",
        deployment="existing",
        answers=_from(
            ("eks", "DescribeCluster"), "shared", accessConfig={"authenticationMode": "CONFIG_MAP"}
        ),
        says=("computed `CONFIG_MAP`", "limit `API` or `API_AND_CONFIG_MAP`", "update-cluster-config"),
    ),
    "existing-too-new": Planted(
        check="PRE-EKS-003",
        path="cluster.existing.eks_name",
        deployment="existing",
        answers=_from(("eks", "DescribeCluster"), "shared", version="1.36"),
        says=("computed Kubernetes 1.36", "limit 1.30 to 1.35"),
    ),
    "existing-of-another-version": Planted(
        check="PRE-EKS-003",
        path="cluster.kubernetes_version",
        deployment="existing",
        answers=_from(("eks", "DescribeCluster"), "shared", version="1.34"),
        says=("`shared` has 1.34", 'write `kubernetes_version: "1.34"`'),
    ),
    "existing-being-updated": Planted(
        check="PRE-EKS-003",
        path="cluster.existing.eks_name",
        deployment="existing",
        answers=_from(("eks", "DescribeCluster"), "shared", status="FAILED"),
        says=("status `FAILED`", "limit `ACTIVE`"),
    ),
    "existing-old-cni": Planted(
        check="PRE-EKS-003",
        path="cluster.existing.eks_name",
        deployment="existing",
        answers=but(("eks", "DescribeAddon"), addonVersion="v1.18.2-eksbuild.1"),
        says=("`vpc-cni` v1.18.2-eksbuild.1", "limit at least v1.18.3-eksbuild.1"),
    ),
    "existing-eks-absent": Planted(
        check="PRE-EKS-003",
        path="cluster.existing.eks_name",
        deployment="existing",
        answers={("eks", "DescribeCluster"): Refusal(code="ResourceNotFoundException")},
        says=("no such EKS cluster", "given `eks_name: shared`"),
    ),
    "existing-hyperpod-absent": Planted(
        check="PRE-EKS-003",
        path="cluster.existing.hyperpod_name",
        deployment="existing",
        answers={("sagemaker", "DescribeCluster"): Refusal(code="ResourceNotFound")},
        says=("no such HyperPod cluster", "given `hyperpod_name: gpus`"),
    ),
    "existing-hyperpod-failed": Planted(
        check="PRE-EKS-003",
        path="cluster.existing.hyperpod_name",
        deployment="existing",
        answers=_from(
            ("sagemaker", "DescribeCluster"), "gpus", ClusterStatus="Failed", FailureMessage="no capacity"
        ),
        says=("status `Failed`: no capacity",),
    ),
    "existing-pair-does-not-match": Planted(
        check="PRE-EKS-003",
        path="cluster.existing.hyperpod_name",
        deployment="existing",
        answers=_from(("sagemaker", "DescribeCluster"), "gpus", Orchestrator={}),
        says=("its orchestrator is `Slurm`",),
    ),
    "no-prometheus": Planted(
        check="PRE-OBS-001",
        path="platform.scraping",
        answers={("amp", "ListWorkspaces"): _no_endpoint},
        says=("given `scraping: collector` in `us-east-1`", "nothing answers at `https://aps.example`"),
    ),
    "no-grafana": Planted(
        check="PRE-OBS-002",
        path="platform.grafana",
        deployment="closed",
        changes={"region": "us-west-1"},
        region="us-west-1",
        says=("`grafana: managed` in `us-west-1`", "limit `us-east-1`"),
    ),
    "no-identity-center": Planted(
        check="PRE-OBS-002",
        path="platform.grafana",
        deployment="closed",
        answers={("sso-admin", "ListInstances"): {"Instances": []}},
        says=("sees no IAM Identity Center", "no instance in 13 regions"),
    ),
    "no-topic": Planted(
        check="PRE-OBS-003",
        path="platform.alerts.topic_arn",
        deployment="closed",
        answers={("sns", "GetTopicAttributes"): Refusal(code="NotFound")},
        says=("the topic does not exist", "123456789012:alerts"),
    ),
    "topic-that-takes-nothing": Planted(
        check="PRE-OBS-003",
        path="platform.alerts.topic_arn",
        deployment="closed",
        answers={("sns", "GetTopicAttributes"): {"Attributes": {"Policy": _SILENT_TOPIC}}},
        says=("no statement for `aps.amazonaws.com`, `budgets.amazonaws.com`",),
    ),
    "topic-with-a-key-of-aws": Planted(
        check="PRE-OBS-003",
        path="platform.alerts.topic_arn",
        deployment="closed",
        answers={
            ("sns", "GetTopicAttributes"): {
                "Attributes": {"Policy": _OPEN_TOPIC, "KmsMasterKeyId": "alias/aws/sns"}
            }
        },
        says=("a key that no service may use", "alias/aws/sns"),
    ),
}
