"""What a preflight finds in accounts with one thing wrong, and in accounts with nothing wrong."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from hyperpod_dpd.catalog.endpoints import endpoint_services
from hyperpod_dpd.catalog.regions import region
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.checks import ALL, CHECKS, GATE
from hyperpod_dpd.preflight.quota import QUOTA_CALLS
from hyperpod_dpd.preflight.report import Report, Status
from hyperpod_dpd.preflight.runner import preflight
from hyperpod_dpd.spec import Deployment, FolderOrigin, HubOrigin, LoadBalancer, Spot
from tests.preflight.aws import ACCOUNT_ID, NOW, Refusal, TableAccount, Web, WebAnswer
from tests.preflight.healthy import PLAN, VPC, deployments, healthy, quota, web
from tests.support.deployments import ROOT, changed

KEY = f"arn:aws:kms:us-east-1:{ACCOUNT_ID}:key/00000000-0000-0000-0000-000000000000"
THEIR_KEY = f"arn:aws:kms:us-east-1:{ACCOUNT_ID}:key/11111111-1111-1111-1111-111111111111"

Call = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Planted:
    """One thing wrong with an account, or with a deployment for it, and what has to be said about it."""

    check: str
    says: tuple[str, ...]
    """Texts that the message must hold: what was given, computed, the limit, the fix."""
    path: str
    besides: tuple[str, ...] = ()
    """Paths of everything else that the check finds then."""
    deployment: str = "default"
    changes: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[Call, Any] = field(default_factory=dict)
    web: Web = web
    region: str = "us-east-1"

    def altered(self) -> Deployment:
        return changed(deployments()[self.deployment], **self.changes)

    def account(self) -> TableAccount:
        return TableAccount({**healthy(), **self.answers}, web=self.web, region=self.region)


def _but(call: Call, **changes: Any) -> dict[Call, Any]:
    """Change the top level of the only value of a healthy answer."""
    ((key, value),) = healthy()[call].items()
    row = value[0] if isinstance(value, list) else value
    return {call: {key: [{**row, **changes}] if isinstance(value, list) else {**row, **changes}}}


def _plan(**changes: Any) -> dict[Call, Any]:
    call = ("sagemaker", "DescribeTrainingPlan")
    return {call: {**healthy()[call], **changes}}


def _reserved(**changes: Any) -> dict[Call, Any]:
    row = healthy()["sagemaker", "DescribeTrainingPlan"]["ReservedCapacitySummaries"][0]
    return _plan(ReservedCapacitySummaries=[{**row, **changes}])


def _from(call: Call, name: str, **changes: Any) -> dict[Call, Any]:
    """Change what a healthy account answers about the cluster `name`."""
    answer: Callable[[Mapping[str, Any]], dict[str, Any]] = healthy()[call]
    key = "name" if call[0] == "eks" else "ClusterName"
    whole = answer({key: name})
    altered = {"cluster": {**whole["cluster"], **changes}} if "cluster" in whole else {**whole, **changes}
    return {call: lambda parameters: altered if parameters[key] == name else answer(parameters)}


def _rows(call: Call, number: int, **changes: Any) -> dict[Call, Any]:
    """Change one row of the only list of a healthy answer."""
    ((key, rows),) = healthy()[call].items()
    return {call: {key: [{**row, **changes} if at == number else row for at, row in enumerate(rows)]}}


def _subnet(subnet_id: str, **changes: Any) -> dict[Call, Any]:
    """Change what a healthy account answers about a subnet."""
    call = ("ec2", "DescribeSubnets")
    ids = [row["SubnetId"] for row in healthy()[call]["Subnets"]]
    return _rows(call, ids.index(subnet_id), **changes)


def _interfaces(*services: str) -> dict[Call, Any]:
    call = ("ec2", "DescribeVpcEndpoints")
    row = healthy()[call]["VpcEndpoints"][1]
    return {
        call: {
            "VpcEndpoints": [{**row, "ServiceName": f"com.amazonaws.us-east-1.{each}"} for each in services]
        }
    }


def _default_route(*routes: Mapping[str, Any]) -> dict[Call, Any]:
    call = ("ec2", "DescribeRouteTables")
    local = healthy()[call]["RouteTables"][0]["Routes"][0]
    rows = [{"DestinationCidrBlock": "0.0.0.0/0", "State": "active", **route} for route in routes]
    return _rows(call, 0, Routes=[local, *rows])


def _without_addon(name: str) -> dict[Call, Any]:
    call = ("eks", "DescribeAddonVersions")
    return {call: {"addons": [row for row in healthy()[call]["addons"] if row["addonName"] != name]}}


def _addon(name: str, version: str) -> dict[Call, Any]:
    call = ("eks", "DescribeAddonVersions")
    rows = _without_addon(name)[call]["addons"]
    return {call: {"addons": [*rows, {"addonName": name, "addonVersions": [{"addonVersion": version}]}]}}


def _decision(decision: str, *, action: str, organization: bool = True) -> dict[Call, Any]:
    def answer(parameters: Mapping[str, Any]) -> dict[str, Any]:
        allowed: dict[str, Any] = healthy()["iam", "SimulatePrincipalPolicy"](parameters)
        for row in allowed["EvaluationResults"]:
            if row["EvalActionName"] == action:
                row["EvalDecision"] = decision
                row["OrganizationsDecisionDetail"] = {"AllowedByOrganizations": organization}
        return allowed

    return {("iam", "SimulatePrincipalPolicy"): answer}


def _no_endpoint(_parameters: Mapping[str, Any]) -> Any:
    raise EndpointConnectionError(endpoint_url="https://aps.example")


def _hub(status: int) -> Web:
    return lambda _url, _headers: WebAnswer(status=status)


def _buckets(*names: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda parameters: {} if parameters["Bucket"] in names else Refusal(code="404", status=404)


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
    "another-account": Planted(
        check="PRE-ACC-001",
        path="account",
        deployment="default",
        changes={"account": "999999999999"},
        says=("given `account: 999999999999`", f"computed account `{ACCOUNT_ID}`", "--profile"),
    ),
    "another-region": Planted(
        check="PRE-ACC-001",
        path="region",
        region="us-west-2",
        says=("given `region: us-east-1`", "computed asked about `us-west-2`"),
    ),
    "region-not-enabled": Planted(
        check="PRE-ACC-002",
        path="region",
        answers={
            ("ec2", "DescribeRegions"): {
                "Regions": [{"RegionName": "us-east-1", "OptInStatus": "not-opted-in"}]
            }
        },
        says=("the region is `not-opted-in`", "aws account enable-region --region-name us-east-1"),
    ),
    "not-bootstrapped": Planted(
        check="PRE-CDK-001",
        path="region",
        answers={("ssm", "GetParameter"): Refusal(code="ParameterNotFound")},
        says=(
            "not bootstrapped",
            f"help: `cdk bootstrap aws://{ACCOUNT_ID}/us-east-1`",
            "`organization.bootstrap_qualifier`",
        ),
    ),
    "not-bootstrapped-as-the-organization-does": Planted(
        check="PRE-CDK-001",
        path="region",
        changes={"organization__bootstrap_qualifier": "bank"},
        # an account with the CDK's own bootstrap beside
        answers={
            ("ssm", "GetParameter"): lambda parameters: (
                {"Parameter": {"Value": "30"}}
                if parameters["Name"] == "/cdk-bootstrap/hnb659fds/version"
                else Refusal(code="ParameterNotFound")
            )
        },
        says=(
            "no parameter `/cdk-bootstrap/bank/version`",
            f"help: `cdk bootstrap aws://{ACCOUNT_ID}/us-east-1 --qualifier bank`",
        ),
    ),
    "restricted-bootstrap-of-the-organization": Planted(
        check="PRE-CDK-002",
        path="hyperpod",
        changes={"organization__bootstrap_qualifier": "bank"},
        answers=_decision("implicitDeny", action="sagemaker:CreateCluster"),
        says=("`cdk-bank-cfn-exec-role-123456789012-us-east-1`",),
    ),
    "old-bootstrap": Planted(
        check="PRE-CDK-001",
        path="region",
        answers={
            ("ssm", "GetParameter"): lambda parameters: (
                {"Parameter": {"Value": "5"}}
                if parameters["Name"] == "/cdk-bootstrap/hnb659fds/version"
                else Refusal(code="ParameterNotFound")
            )
        },
        says=("too old", "computed bootstrap version 5", "limit at least 6"),
    ),
    "restricted-bootstrap": Planted(
        check="PRE-CDK-002",
        path="hyperpod",
        answers=_decision("implicitDeny", action="sagemaker:CreateCluster"),
        says=(
            "`cdk-hnb659fds-cfn-exec-role-123456789012-us-east-1`",
            "denied: `sagemaker:CreateCluster`",
            "--cloudformation-execution-policies",
        ),
    ),
    "service-control-policy": Planted(
        check="PRE-CDK-002",
        path="hyperpod",
        answers=_decision("implicitDeny", action="eks:CreateCluster", organization=False),
        says=("a service control policy keeps CloudFormation from", "denies `eks:CreateCluster`"),
    ),
    "service-linked-role-forbidden": Planted(
        check="PRE-HP-001",
        path="hyperpod",
        answers=_decision("explicitDeny", action="iam:CreateServiceLinkedRole"),
        says=("AWSServiceRoleForSageMakerHyperPod", "denied: `iam:CreateServiceLinkedRole`"),
    ),
    "quota-0": Planted(
        check="PRE-QUO-001",
        path="hyperpod.instance_groups[0].count",
        answers={("service-quotas", "GetServiceQuota"): quota(L_8762A75F=0.0)},
        says=(
            "quota `ml.p5.48xlarge for cluster usage` (L-8762A75F)",
            "given `ml.p5.48xlarge` on-demand in `prefill` 1, `decode` 1",
            "computed 2 needed + 2 in use by other clusters = 4",
            "limit 0.",
            "--quota-code L-8762A75F --desired-value 4",
        ),
    ),
    "quota-of-an-account-that-never-asked": Planted(
        check="PRE-QUO-001",
        path="hyperpod.instance_groups[0].count",
        answers={
            ("service-quotas", "GetServiceQuota"): Refusal(code="NoSuchResourceException"),
            ("service-quotas", "GetAWSDefaultServiceQuota"): quota(L_8762A75F=0.0),
        },
        says=("limit 0.",),
    ),
    "spot-quota": Planted(
        check="PRE-QUO-001",
        path="hyperpod.instance_groups[1].count",
        deployment="plan",
        answers={("service-quotas", "GetServiceQuota"): quota(L_F742E2D7=0.0)},
        says=("`ml.p5.48xlarge for cluster spot instance usage`", "computed 1 needed", "limit 0."),
    ),
    "too-many-instances": Planted(
        check="PRE-QUO-002",
        path="hyperpod.instance_groups",
        changes={"hyperpod__instance_groups__0__count": 20},
        answers={("service-quotas", "GetServiceQuota"): quota(L_2CE978FC=20.0)},
        says=("Maximum number instances allowed per SageMaker HyperPod cluster", "21 needed", "limit 20"),
    ),
    "too-many-instances-in-all-clusters": Planted(
        check="PRE-QUO-002",
        path="hyperpod.instance_groups",
        answers={("service-quotas", "GetServiceQuota"): quota(L_3308CCC7=3.0)},
        says=("2 needed + 2 in use by other clusters = 4", "limit 3."),
    ),
    "spot-total": Planted(
        check="PRE-QUO-002",
        path="hyperpod.instance_groups",
        deployment="plan",
        answers={("service-quotas", "GetServiceQuota"): quota(L_97A2C724=0.0)},
        says=("Total number of Spot instances", "given 1 Spot instances"),
    ),
    "volume-too-large": Planted(
        check="PRE-QUO-002",
        path="hyperpod.instance_groups[1].volume_gib",
        changes={"hyperpod__instance_groups__1__volume_gib": 2000},
        answers={("service-quotas", "GetServiceQuota"): quota(L_E13DF72A=1024.0)},
        says=("given `volume_gib: 2000`", "limit 1,024 GiB"),
    ),
    "five-vpcs": Planted(
        check="PRE-QUO-003",
        path="network",
        answers={
            ("service-quotas", "GetServiceQuota"): quota(L_F678F1CE=5.0),
            ("ec2", "DescribeVpcs"): {"Vpcs": [{"VpcId": f"vpc-{number}"} for number in range(5)]},
        },
        says=("`VPCs per Region`", "1 needed + 5 in use = 6", "limit 5"),
    ),
    "five-addresses": Planted(
        check="PRE-QUO-003",
        path="network.egress",
        answers={
            ("service-quotas", "GetServiceQuota"): quota(L_0263D0A3=5.0),
            ("ec2", "DescribeAddresses"): {"Addresses": [{"PublicIp": "192.0.2.1"}] * 5},
        },
        says=("`EC2-VPC Elastic IPs`", "given `egress: nat`", "limit 5"),
    ),
    "cidrs": Planted(
        check="PRE-QUO-003",
        path="network.gpu_cidr",
        answers={("service-quotas", "GetServiceQuota"): quota(L_83CA0A9D=1.0)},
        says=("`IPv4 CIDR blocks per VPC`", "`gpu_cidr: 10.1.0.0/16`", "computed 2 needed"),
    ),
    "endpoints": Planted(
        check="PRE-QUO-003",
        path="network.interface_endpoints",
        deployment="closed",
        answers={("service-quotas", "GetServiceQuota"): quota(L_29B6F2EB=10.0)},
        says=("`Interface VPC endpoints per VPC`", "20 needed", "limit 10"),
    ),
    "interfaces": Planted(
        check="PRE-QUO-004",
        path="hyperpod.instance_groups",
        answers={("service-quotas", "GetServiceQuota"): quota(L_DF5E4CA3=64.0)},
        says=("1 × 32 cards (`prefill`) + 1 × 32 cards (`decode`)", "64 needed + 1 in use = 65", "limit 64"),
    ),
    "five-vcpus": Planted(
        check="PRE-QUO-005",
        path="cluster.system_nodes",
        answers={("service-quotas", "GetServiceQuota"): quota(L_1216C47A=5.0)},
        says=("2 × `m6i.xlarge` with 4 vCPUs", "8 needed + 4 in use = 12", "limit 5"),
    ),
    **{
        f"left-over-{kind}": Planted(
            check="PRE-NAM-002",
            path="name",
            answers={
                ("cloudformation", "DescribeStacks"): Refusal(code="ValidationError"),
                ("s3", "HeadBucket"): Refusal(code="404", status=404),
                ("secretsmanager", "DescribeSecret"): Refusal(code="ResourceNotFoundException"),
                ("logs", "DescribeLogGroups"): {"logGroups": [{"logGroupName": "/aws/eks/another/cluster"}]},
                **answers,
            },
            says=("an earlier deployment of this name left it", *says),
        )
        for kind, answers, says in (
            (
                "bucket",
                {("s3", "HeadBucket"): _buckets(f"hyperpod-tls-llama-3-3-70b-p5-{ACCOUNT_ID}-us-east-1")},
                (
                    f"given `hyperpod-tls-llama-3-3-70b-p5-{ACCOUNT_ID}-us-east-1`",
                    f"`aws s3 rb s3://hyperpod-tls-llama-3-3-70b-p5-{ACCOUNT_ID}-us-east-1`",
                ),
            ),
            (
                "secret",
                {("secretsmanager", "DescribeSecret"): {"Name": "any"}},
                ("`hyperpod-dpd/llama-3-3-70b-p5/huggingface`", "--force-delete-without-recovery"),
            ),
            (
                "log-group",
                {
                    ("logs", "DescribeLogGroups"): {
                        "logGroups": [{"logGroupName": "/aws/vendedlogs/prometheus/llama-3-3-70b-p5"}]
                    }
                },
                ("given `/aws/vendedlogs/prometheus/llama-3-3-70b-p5`", "`aws logs delete-log-group "),
            ),
        )
    },
    "no-large-builds": Planted(
        check="PRE-QUO-006",
        path="platform.images",
        answers={("service-quotas", "GetServiceQuota"): quota(L_4DDC4A99=0.0)},
        says=(
            "`Concurrently running builds for Linux/Large environment` (L-4DDC4A99)",
            "given the image `worker`, the model's import on `BUILD_GENERAL1_LARGE`",
            "1 needed",
            "limit 0",
            "--service-code codebuild",
        ),
    ),
    "zone-unseen": Planted(
        check="PRE-ZON-001",
        path="network.gpu_zone_id",
        besides=("network.cluster_zone_ids[0]",),
        answers={
            ("ec2", "DescribeAvailabilityZones"): {
                "AvailabilityZones": [
                    {"ZoneId": "use1-az1", "State": "available"},
                    {"ZoneId": "use1-az4", "State": "available"},
                ]
            }
        },
        says=("given `use1-az6`", "the account does not see it", "`use1-az1`, `use1-az4`"),
    ),
    "wrong-zone": Planted(
        check="PRE-ZON-002",
        path="hyperpod.instance_groups[0].instance_type",
        besides=("hyperpod.instance_groups[1].instance_type",),
        answers={
            ("ec2", "DescribeInstanceTypeOfferings"): {
                "InstanceTypeOfferings": [
                    {"InstanceType": "p5.48xlarge", "Location": "use1-az2"},
                    {"InstanceType": "m6i.xlarge", "Location": "use1-az4"},
                    {"InstanceType": "m6i.xlarge", "Location": "use1-az6"},
                ]
            }
        },
        says=(
            "given `p5.48xlarge` in `use1-az6`",
            "limit offered in `use1-az2`",
            "offered does not mean free",
        ),
    ),
    "plan-unknown": Planted(
        check="PRE-CAP-001",
        path="hyperpod.instance_groups[0].capacity.arn",
        deployment="plan",
        answers={("sagemaker", "DescribeTrainingPlan"): Refusal(code="ResourceNotFound")},
        says=(f"given `{PLAN}`", "list-training-plans --region us-east-1"),
    ),
    "plan-expired": Planted(
        check="PRE-CAP-001",
        path="hyperpod.instance_groups[0].capacity.arn",
        deployment="plan",
        answers=_plan(Status="Expired", EndTime=NOW - timedelta(days=2)),
        says=("status `Expired`, ended 2026-11-28 12:00 UTC", "limit `Active` or `Scheduled`"),
    ),
    "plan-not-begun": Planted(
        check="PRE-CAP-001",
        path="hyperpod.instance_groups[0].capacity.arn",
        deployment="plan",
        answers=_plan(Status="Scheduled", StartTime=NOW + timedelta(hours=30)),
        says=("it begins 2026-12-01 18:00 UTC, in 30 hours", "limit 12 hours"),
    ),
    "plan-in-another-zone": Planted(
        check="PRE-CAP-001",
        path="hyperpod.instance_groups[0].capacity.arn",
        deployment="plan",
        answers=_reserved(AvailabilityZoneId="use1-az2"),
        says=("given `prefill` in `use1-az6`", "is in `use1-az2`", "`network.gpu_zone_id`"),
    ),
    "plan-of-another-type": Planted(
        check="PRE-CAP-001",
        path="hyperpod.instance_groups[0].instance_type",
        deployment="plan",
        answers=_reserved(InstanceType="ml.p5en.48xlarge"),
        says=("given `ml.p5.48xlarge`", "it holds `ml.p5en.48xlarge`"),
    ),
    "plan-too-small": Planted(
        check="PRE-CAP-001",
        path="hyperpod.instance_groups[0].count",
        deployment="plan",
        changes={"hyperpod__instance_groups__0__count": 3},
        answers={},
        says=("computed 3 (`prefill`) = 3", "limit 2 in all."),
    ),
    "plan-used-by-others": Planted(
        check="PRE-CAP-001",
        path="hyperpod.instance_groups[0].count",
        deployment="plan",
        answers=_plan(AvailableInstanceCount=0),
        says=("others use the training plan's instances", "limit 0 of 2 free"),
    ),
    "plan-for-training-jobs": Planted(
        check="PRE-CAP-001",
        path="hyperpod.instance_groups[0].capacity.arn",
        deployment="plan",
        answers=_plan(TargetResources=["training-job"]),
        says=("it is for `training-job`", "limit `hyperpod-cluster`"),
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
        answers=_but(("eks", "DescribeAddon"), addonVersion="v1.18.2-eksbuild.1"),
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
    "existing-subnet-full": Planted(
        check="PRE-NET-001",
        path="hyperpod.instance_groups",
        deployment="existing",
        answers=_but(("ec2", "DescribeSubnets"), AvailableIpAddressCount=80),
        says=("given `subnet-0123456789abcdef0` (10.1.0.0/20)", "computed 81 addresses", "limit 80 free"),
    ),
    "existing-subnet-elsewhere": Planted(
        check="PRE-NET-001",
        path="hyperpod.instance_groups[0].zone_id",
        besides=("hyperpod.instance_groups[1].zone_id",),
        deployment="existing",
        answers=_but(("ec2", "DescribeSubnets"), AvailabilityZoneId="use1-az2"),
        says=("`subnet-0123456789abcdef0` in `use1-az2`",),
    ),
    "vpc-absent": Planted(
        check="PRE-NET-002",
        path="network.existing.vpc_id",
        deployment="vpc",
        answers={("ec2", "DescribeVpcs"): Refusal(code="InvalidVpcID.NotFound")},
        says=("given `vpc_id: vpc-0123456789abcdef0`", "`aws ec2 describe-vpcs --region us-east-1`"),
    ),
    "vpc-shared": Planted(
        check="PRE-NET-002",
        path="network.existing.vpc_id",
        deployment="vpc",
        answers=_but(("ec2", "DescribeVpcs"), OwnerId="210987654321"),
        says=("computed its owner is 210987654321", f"limit {ACCOUNT_ID}"),
    ),
    "vpc-with-other-ranges": Planted(
        check="PRE-NET-002",
        path="network.existing.cidrs",
        deployment="vpc",
        changes={"network__existing__cidrs": ("10.20.0.0/16", "10.99.0.0/16")},
        says=(
            "given `cidrs: [10.20.0.0/16, 10.99.0.0/16]`",
            "the list lacks 100.64.0.0/16 and names 10.99.0.0/16, which the VPC does not have",
            "write `cidrs: [10.20.0.0/16, 100.64.0.0/16]`",
        ),
    ),
    "vpc-with-a-range-that-nobody-names": Planted(
        check="PRE-NET-002",
        path="network.existing.cidrs",
        deployment="vpc",
        changes={"network__existing__cidrs": ("10.20.0.0/16",)},
        says=("computed the list lacks 100.64.0.0/16. help", "write `cidrs: [10.20.0.0/16, 100.64.0.0/16]`"),
    ),
    "vpc-without-a-range-that-is-named": Planted(
        check="PRE-NET-002",
        path="network.existing.cidrs",
        deployment="vpc",
        changes={"network__existing__cidrs": ("10.20.0.0/16", "100.64.0.0/16", "10.99.0.0/16")},
        says=("computed the list names 10.99.0.0/16, which the VPC does not have",),
    ),
    "vpc-without-names": Planted(
        check="PRE-NET-002",
        path="network.existing.vpc_id",
        deployment="vpc",
        answers={
            ("ec2", "DescribeVpcAttribute"): {
                "EnableDnsSupport": {"Value": True},
                "EnableDnsHostnames": {"Value": False},
            }
        },
        says=("computed its `enableDnsHostnames` is off",),
    ),
    "vpc-subnet-absent": Planted(
        check="PRE-NET-003",
        path="network.existing.cluster_subnet_ids[1]",
        deployment="vpc",
        changes={
            "network__existing__cluster_subnet_ids": (VPC.system_subnet_ids[0], "subnet-00000000000000009")
        },
        says=("no such subnet", "given `subnet-00000000000000009`", "Values=vpc-0123456789abcdef0"),
    ),
    "vpc-subnet-of-another-vpc": Planted(
        check="PRE-NET-003",
        path="network.existing.gpu_subnet_id",
        deployment="vpc",
        answers=_subnet(VPC.gpu_subnet_id, VpcId="vpc-00000000"),
        says=("it is in `vpc-00000000`", "limit `vpc_id: vpc-0123456789abcdef0`"),
    ),
    "vpc-gpu-subnet-elsewhere": Planted(
        check="PRE-NET-003",
        path="network.existing.gpu_subnet_id",
        deployment="vpc",
        answers=_subnet(VPC.gpu_subnet_id, AvailabilityZoneId="use1-az4"),
        says=("in another zone", "it is in `use1-az4`", "limit `use1-az6`"),
    ),
    "vpc-system-subnets-in-another-order": Planted(
        check="PRE-NET-003",
        path="network.existing.system_subnet_ids[0]",
        besides=("network.existing.system_subnet_ids[1]",),
        deployment="vpc",
        changes={"network__existing__system_subnet_ids": VPC.system_subnet_ids[::-1]},
        says=(f"given `{VPC.system_subnet_ids[1]}`", "it is in `use1-az4`", "limit `use1-az6`"),
    ),
    "vpc-subnet-public": Planted(
        check="PRE-NET-003",
        path="network.existing.system_subnet_ids[1]",
        deployment="vpc",
        answers=_subnet(VPC.system_subnet_ids[1], MapPublicIpOnLaunch=True),
        says=("`MapPublicIpOnLaunch: true`", "private subnets only"),
    ),
    "vpc-gpu-subnet-full": Planted(
        check="PRE-NET-004",
        path="network.existing.gpu_subnet_id",
        deployment="vpc",
        answers=_subnet(VPC.gpu_subnet_id, AvailableIpAddressCount=161),
        says=(
            "computed 1 × 81 (nodes of `prefill`) + 1 × 81 (nodes of `decode`) = 162 addresses",
            "limit 161 free",
        ),
    ),
    "vpc-system-subnet-full": Planted(
        check="PRE-NET-004",
        path="network.existing.system_subnet_ids[0]",
        deployment="vpc",
        answers=_subnet(VPC.system_subnet_ids[0], AvailableIpAddressCount=148),
        # 20 services with Amazon Managed Grafana, without the one that is there
        says=(
            "1 × 6 (control plane) + 2 × 58 (system nodes) + 19 × 1 (interface endpoints) + 1 × 8 (load balancer)",
            "= 149 addresses; limit 148 free",
        ),
    ),
    "vpc-without-a-way-out": Planted(
        check="PRE-NET-005",
        path="network.existing.gpu_subnet_id",
        besides=(
            "network.existing.system_subnet_ids[0]",
            "network.existing.system_subnet_ids[1]",
        ),
        deployment="vpc-of-operator",
        answers=_default_route(),
        says=("no default route", "`rtb-main`, and `egress: nat`"),
    ),
    "vpc-with-a-way-to-nowhere": Planted(
        check="PRE-NET-005",
        path="network.existing.system_subnet_ids[0]",
        besides=(
            "network.existing.gpu_subnet_id",
            "network.existing.system_subnet_ids[1]",
        ),
        deployment="vpc-of-operator",
        answers=_default_route({"NatGatewayId": "nat-1", "State": "blackhole"}),
        says=("its state is `blackhole`",),
    ),
    "vpc-with-public-routes": Planted(
        check="PRE-NET-005",
        path="network.existing.system_subnet_ids[1]",
        besides=(
            "network.existing.gpu_subnet_id",
            "network.existing.system_subnet_ids[0]",
        ),
        deployment="vpc-of-operator",
        answers=_default_route({"GatewayId": "igw-1"}),
        says=("internet gateway", "computed `igw-1`"),
    ),
    "vpc-without-s3": Planted(
        check="PRE-NET-005",
        path="network.existing.gpu_subnet_id",
        besides=(
            "network.existing.system_subnet_ids[0]",
            "network.existing.system_subnet_ids[1]",
        ),
        deployment="vpc",
        answers=_rows(("ec2", "DescribeVpcEndpoints"), 0, RouteTableIds=["rtb-public"]),
        says=(
            "no gateway endpoint of S3",
            "--service-name com.amazonaws.us-east-1.s3 --route-table-ids rtb-main",
        ),
    ),
    "vpc-with-private-names-of-s3": Planted(
        check="PRE-NET-005",
        path="network.existing.vpc_id",
        deployment="vpc",
        answers=_rows(
            ("ec2", "DescribeVpcEndpoints"),
            1,
            ServiceName="com.amazonaws.us-east-1.s3",
            VpcEndpointId="vpce-1",
            DnsOptions={"PrivateDnsOnlyForInboundResolverEndpoint": False},
        ),
        says=("`vpce-1` has private DNS for the whole VPC", "`PrivateDnsOnlyForInboundResolverEndpoint`"),
    ),
    "vpc-endpoints-twice": Planted(
        check="PRE-NET-006",
        path="network.interface_endpoints",
        deployment="vpc",
        changes={"network__existing__endpoint_services": ()},
        says=("there are `sts`", "add `endpoint_services: [sts]` to `network.existing`"),
    ),
    "vpc-closed-without-endpoints": Planted(
        check="PRE-NET-006",
        path="network.existing",
        deployment="vpc",
        changes={"network__interface_endpoints": False, "network__existing__endpoint_services": ()},
        answers=_default_route(),
        says=(
            "no route leads out of the VPC",
            "none of `aps-workspaces`, ",
            "`ssmmessages`",
            "`egress: closed`",
        ),
    ),
    "vpc-balancer-subnet-small": Planted(
        check="PRE-NET-007",
        path="network.existing.load_balancer_subnet_ids",
        deployment="vpc",
        answers=_subnet(VPC.system_subnet_ids[1], CidrBlock="10.20.0.0/28"),
        says=(f"given `{VPC.system_subnet_ids[1]}` (10.20.0.0/28)", "limit /27"),
    ),
    "vpc-untagged": Planted(
        check="PRE-NET-007",
        path="network.existing.vpc_id",
        deployment="vpc-of-operator",
        answers=_subnet(VPC.system_subnet_ids[1], Tags=[]),
        says=(
            "computed 1 zones with subnets tagged `kubernetes.io/role/internal-elb: 1`",
            f"--resources {' '.join(VPC.system_subnet_ids)} --tags Key=kubernetes.io/role/internal-elb,Value=1",
        ),
    ),
    "vpc-tagged-for-another-cluster": Planted(
        check="PRE-NET-007",
        path="network.existing.vpc_id",
        deployment="vpc-of-operator",
        answers=_subnet(
            VPC.system_subnet_ids[1],
            Tags=[
                {"Key": "kubernetes.io/role/internal-elb", "Value": "1"},
                {"Key": "kubernetes.io/cluster/theirs", "Value": "shared"},
            ],
        ),
        says=("limit 2 zones",),
    ),
    "vpc-endpoints-over-quota": Planted(
        check="PRE-QUO-007",
        path="network.interface_endpoints",
        deployment="vpc",
        answers={("service-quotas", "GetServiceQuota"): quota(L_29B6F2EB=19.0)},
        says=("19 needed + 1 in use = 20", "limit 19", "endpoints of 19 services in `vpc-0123456789abcdef0`"),
    ),
    "eks-name-taken": Planted(
        check="PRE-NAM-001",
        path="name",
        answers={("eks", "DescribeCluster"): {"cluster": {"name": "llama-3-3-70b-p5"}}},
        says=("name of the EKS cluster is taken", "given `llama-3-3-70b-p5`"),
    ),
    "hyperpod-name-taken": Planted(
        check="PRE-NAM-001",
        path="hyperpod.cluster_name",
        changes={"hyperpod__cluster_name": "training"},
        answers={},
        says=("name of the HyperPod cluster is taken", "gives its capacity away"),
    ),
    "origin-absent": Planted(
        check="PRE-DAT-001",
        path="model.imported_from.uri",
        changes={"model__imported_from": FolderOrigin(type="s3", uri="s3://theirs/llama")},
        answers={("s3", "HeadBucket"): _buckets()},
        says=("does not exist", "given `uri: s3://theirs/llama`"),
    ),
    "origin-without-weights": Planted(
        check="PRE-DAT-001",
        path="model.imported_from.uri",
        changes={"model__imported_from": FolderOrigin(type="s3", uri="s3://theirs/llama")},
        answers={
            ("s3", "HeadBucket"): {"BucketRegion": "eu-west-1"},
            ("s3", "ListObjectsV2"): {"Contents": [{"Key": "llama/config.json", "Size": 10}]},
        },
        says=("no weights in safetensors", "`s3://theirs/llama/` with 1 objects"),
    ),
    "model-bucket-absent": Planted(
        check="PRE-DAT-001",
        path="model.source.bucket",
        deployment="bucket",
        answers={("s3", "HeadBucket"): _buckets()},
        says=("the model bucket does not exist", "given `bucket: weights`"),
    ),
    "model-bucket-elsewhere": Planted(
        check="PRE-DAT-001",
        path="model.source.bucket",
        deployment="bucket",
        answers={("s3", "HeadBucket"): {"BucketRegion": "eu-west-1"}},
        says=("it is in `eu-west-1`", "limit `us-east-1`"),
    ),
    "model-bucket-redirects": Planted(
        check="PRE-DAT-001",
        path="model.source.bucket",
        deployment="bucket",
        answers={
            ("s3", "HeadBucket"): Refusal(
                code="301", status=301, headers=(("x-amz-bucket-region", "eu-west-1"),)
            )
        },
        says=("it is in `eu-west-1`",),
    ),
    "model-bucket-empty": Planted(
        check="PRE-DAT-001",
        path="model.source.prefix",
        deployment="bucket",
        answers={("s3", "ListObjectsV2"): {"Contents": [{"Key": "llama/", "Size": 0}]}},
        says=("the model folder is empty", "given `s3://weights/llama/`"),
    ),
    "model-without-weights": Planted(
        check="PRE-DAT-001",
        path="model.source.prefix",
        deployment="bucket",
        answers={("s3", "ListObjectsV2"): {"Contents": [{"Key": "llama/config.json", "Size": 800}]}},
        says=("no weights in safetensors", "with 1 objects"),
    ),
    "model-in-a-subfolder": Planted(
        check="PRE-DAT-001",
        path="model.source.prefix",
        deployment="bucket",
        answers={
            ("s3", "ListObjectsV2"): {
                "Contents": [
                    {"Key": "llama/70b/config.json", "Size": 800},
                    {"Key": "llama/70b/a.safetensors", "Size": 9},
                ]
            }
        },
        says=("has no `config.json`", "point `prefix` to the folder"),
    ),
    "model-under-a-key-that-is-not-named": Planted(
        check="PRE-DAT-001",
        path="model.source.kms_key_arn",
        deployment="bucket",
        answers={("s3", "HeadObject"): {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KEY}},
        says=(
            "readers may not use",
            "given `bucket: weights` without `kms_key_arn`",
            f"`config.json` has `{KEY}`",
            f"set `model.source.kms_key_arn: {KEY}`",
        ),
    ),
    "model-under-another-key": Planted(
        check="PRE-DAT-001",
        path="model.imported_from.kms_key_arn",
        changes={
            "model__imported_from": FolderOrigin(type="s3", uri="s3://theirs/llama", kms_key_arn=THEIR_KEY)
        },
        answers={("s3", "HeadObject"): {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KEY}},
        says=(f"given `kms_key_arn: {THEIR_KEY}`", f"has `{KEY}`"),
    ),
    "file-system-absent": Planted(
        check="PRE-DAT-002",
        path="model.source.file_system_id",
        deployment="fsx",
        answers={("fsx", "DescribeFileSystems"): Refusal(code="FileSystemNotFound")},
        says=("no such file system", "`file_system_id: fs-0123456789abcdef0`"),
    ),
    "file-system-creating": Planted(
        check="PRE-DAT-002",
        path="model.source.file_system_id",
        deployment="fsx",
        answers=_but(("fsx", "DescribeFileSystems"), Lifecycle="CREATING"),
        says=("not available", "computed `CREATING`", "limit `AVAILABLE` or `UPDATING`"),
    ),
    "file-system-mount-name": Planted(
        check="PRE-DAT-002",
        path="model.source.mount_name",
        deployment="fsx",
        answers=_but(("fsx", "DescribeFileSystems"), LustreConfiguration={"MountName": "zzzzzzzz"}),
        says=("given `mount_name: abcdefgh`", "help: write `zzzzzzzz`"),
    ),
    "file-system-in-another-zone": Planted(
        check="PRE-DAT-002",
        path="model.source.file_system_id",
        deployment="fsx",
        answers=_but(("ec2", "DescribeSubnets"), AvailabilityZoneId="use1-az2"),
        says=("given `gpu_zone_id: use1-az6`", "it is in `use1-az2`"),
    ),
    "archive-absent": Planted(
        check="PRE-DAT-003",
        path="cluster.dependencies_chart.s3_uri",
        deployment="closed",
        answers={("s3", "ListObjectsV2"): Refusal(code="NoSuchBucket", status=404)},
        says=("`s3_uri: s3://archives/dependencies.tar.gz`", "make dependencies-archive"),
    ),
    "archive-is-another": Planted(
        check="PRE-DAT-003",
        path="cluster.dependencies_chart.sha256",
        deployment="closed",
        answers={("s3", "HeadObject"): {"Metadata": {"sha256": "ee" * 32}}},
        says=(f"given `sha256: {'cd' * 32}`", f"computed `{'ee' * 32}`"),
    ),
    "tls-bucket-absent": Planted(
        check="PRE-DAT-004",
        path="platform.inference_operator.tls_bucket",
        deployment="closed",
        answers={("s3", "HeadBucket"): _buckets()},
        says=("given `tls_bucket: hyperpod-tls-mine`",),
    ),
    "secret-absent": Planted(
        check="PRE-SEC-001",
        path="model.source.token_secret",
        besides=("routing.api_keys_secret",),
        deployment="hub",
        answers={("secretsmanager", "DescribeSecret"): Refusal(code="ResourceNotFoundException")},
        says=(
            "the secret does not exist",
            "given `token_secret: hub-token`",
            "`dpd secret set hub-token --create",
        ),
    ),
    "secret-empty": Planted(
        check="PRE-SEC-001",
        path="routing.api_keys_secret",
        deployment="hub",
        answers={
            ("secretsmanager", "GetSecretValue"): lambda parameters: (
                {"SecretString": " \n" if parameters["SecretId"] == "api-keys" else "hf_x"}
            )
        },
        says=(
            "the secret is empty",
            "given `api_keys_secret: api-keys`",
            "`dpd secret set api-keys --region",
        ),
    ),
    "secret-without-a-value": Planted(
        check="PRE-SEC-001",
        path="model.source.token_secret",
        deployment="hub",
        changes={"routing__api_keys_secret": None},
        answers={("secretsmanager", "GetSecretValue"): Refusal(code="ResourceNotFoundException")},
        says=("the secret is empty",),
    ),
    "own-secret-empty": Planted(
        check="PRE-SEC-001",
        path="model.imported_from.token_secret",
        answers={("secretsmanager", "GetSecretValue"): Refusal(code="ResourceNotFoundException")},
        says=(
            "the secret is empty",
            "`dpd secret set hyperpod-dpd/llama-3-3-70b-p5/huggingface --region us-east-1`",
        ),
    ),
    "secret-deleted": Planted(
        check="PRE-SEC-001",
        path="model.source.token_secret",
        besides=("routing.api_keys_secret",),
        deployment="hub",
        answers={("secretsmanager", "DescribeSecret"): {"Name": "hub-token", "DeletedDate": NOW}},
        says=("scheduled for deletion", "restore-secret"),
    ),
    "hub-gate-closed": Planted(
        check="PRE-DAT-005",
        path="model.source.token_secret",
        deployment="hub",
        web=_hub(403),
        says=("the owner of the token has not been let in", "the Hub answers 403", "accept the licence"),
    ),
    "hub-token-refused": Planted(
        check="PRE-DAT-005",
        path="model.source.token_secret",
        deployment="hub",
        web=_hub(401),
        says=("the Hub does not accept the token", "the token in `hub-token`"),
    ),
    "hub-without-token": Planted(
        check="PRE-DAT-005",
        path="model.source",
        deployment="hub",
        changes={"model__source__token_secret": None},
        web=_hub(401),
        says=("the model is gated", "without `token_secret`"),
    ),
    "import-gate-closed": Planted(
        check="PRE-DAT-005",
        path="model.imported_from.token_secret",
        web=_hub(403),
        says=("the owner of the token has not been let in", "huggingface"),
    ),
    "hub-revision-unknown": Planted(
        check="PRE-DAT-005",
        path="model.revision",
        deployment="hub",
        web=_hub(404),
        says=("`meta-llama/Llama-3.3-70B-Instruct` at `6f6073b4", "answers 404"),
    ),
    "image-absent": Planted(
        check="PRE-IMG-001",
        path="platform.images.worker",
        deployment="images",
        answers={("ecr", "DescribeImages"): Refusal(code="ImageNotFoundException")},
        says=(f"registry of {ACCOUNT_ID} in `us-east-1` has no such image",),
    ),
    "repository-absent": Planted(
        check="PRE-IMG-001",
        path="platform.images.worker",
        deployment="images",
        answers={("ecr", "DescribeImages"): Refusal(code="RepositoryNotFoundException")},
        says=("has no such repository",),
    ),
    "public-image-absent": Planted(
        check="PRE-IMG-001",
        path="serving.engine.image",
        deployment="images",
        web=_hub(404),
        says=("vllm:server-hyperpod-cuda-v1.1`", "`public.ecr.aws` answers 404"),
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
    "certificate-pending": Planted(
        check="PRE-TLS-001",
        path="routing.load_balancer.certificate_arn",
        deployment="closed",
        answers=_but(("acm", "DescribeCertificate"), Status="PENDING_VALIDATION"),
        says=("status `PENDING_VALIDATION`", "limit `ISSUED`"),
    ),
    "certificate-ends": Planted(
        check="PRE-TLS-001",
        path="routing.load_balancer.certificate_arn",
        deployment="closed",
        answers=_but(("acm", "DescribeCertificate"), NotAfter=NOW + timedelta(days=3)),
        says=("it ends 2026-12-03", "limit at least 14 days"),
    ),
    "certificate-absent": Planted(
        check="PRE-TLS-001",
        path="routing.load_balancer.certificate_arn",
        deployment="closed",
        answers={("acm", "DescribeCertificate"): Refusal(code="ResourceNotFoundException")},
        says=("the certificate does not exist",),
    ),
    "certificate-elsewhere": Planted(
        check="PRE-TLS-001",
        path="routing.load_balancer.certificate_arn",
        deployment="closed",
        changes={
            "routing__load_balancer__certificate_arn": (
                f"arn:aws:acm:us-west-2:{ACCOUNT_ID}:certificate/12345678-1234-1234-1234-123456789012"
            )
        },
        says=("computed `us-west-2`", "limit `us-east-1`"),
    ),
}


def run(deployment: Deployment, account: TableAccount) -> Report:
    """Run every check."""
    return preflight(deployment, account, checks=CHECKS, gate=GATE)


def by_id(check_id: str) -> Check:
    return next(check for check in ALL if check.id == check_id)


@pytest.mark.parametrize("name", deployments())
def test_healthy_account_has_nothing_to_mend_and_nothing_unknown(name: str) -> None:
    report = run(deployments()[name], TableAccount(healthy(), web=web))
    assert [str(finding) for finding in report.findings] == []
    assert [gap.message for _, gap in report.gaps] == []
    assert {outcome.status for outcome in report.outcomes} == {Status.OK}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_problem_is_found_with_its_numbers_and_its_fix_and_nothing_beside_it(name: str) -> None:
    planted = PLANTED[name]
    checks = [check for check in CHECKS if check.id == planted.check]
    report = preflight(planted.altered(), planted.account(), checks=checks, gate=GATE)
    assert sorted(finding.problem.path for finding in report.findings) == sorted(
        (planted.path, *planted.besides)
    )
    assert {finding.rule for finding in report.findings} == {planted.check}
    assert [gap.message for _, gap in report.gaps] == []
    (finding,) = (finding for finding in report.findings if finding.problem.path == planted.path)
    for text in planted.says:
        assert text in finding.message
    assert ". help: " in finding.message
    assert finding.problem.says[0].islower() or finding.problem.says.startswith(
        ("EKS", "CDK", "HyperPod", "Amazon")
    )


def test_every_check_has_a_planted_problem() -> None:
    assert {planted.check for planted in PLANTED.values()} == {check.id for check in ALL}


def test_a_load_balancer_without_a_certificate_has_none_to_look_at() -> None:
    deployment = changed(deployments()["default"], routing__load_balancer=LoadBalancer())
    report = preflight(deployment, TableAccount(healthy(), web=web), checks=[by_id("PRE-TLS-001")], gate=GATE)
    assert not report.findings


def test_several_problems_are_found_at_once() -> None:
    planted = [PLANTED[name] for name in ("quota-0", "old-bootstrap", "zone-unseen", "five-addresses")]
    answers = healthy()
    for each in planted:
        answers |= each.answers
    answers["service-quotas", "GetServiceQuota"] = quota(L_8762A75F=0.0, L_0263D0A3=5.0)
    report = run(deployments()["default"], TableAccount(answers))
    assert {finding.rule for finding in report.findings} == {each.check for each in planted}


def test_every_check_has_a_file_and_an_id_of_its_own() -> None:
    files = {path.stem for path in (ROOT / "constructs/hyperpod_dpd/preflight/checks").glob("[a-z]*.py")}
    assert len(files) == len(ALL) == len({check.id for check in ALL})


def _calls_of(check: Check, deployment: Deployment, account: TableAccount) -> set[Call]:
    _ = account.account_id
    account.calls.clear()
    try:
        for _answer in check.look(deployment, account):
            pass
    except Exception:  # noqa: BLE001 - what is asked counts, not what comes of it
        pass
    return set(account.calls)


@pytest.mark.parametrize("check", [check for check in ALL if check is not GATE], ids=lambda check: check.id)
def test_check_declares_exactly_the_calls_that_it_makes(check: Check) -> None:
    made: set[Call] = set()
    for deployment in deployments().values():
        if check.applies(deployment):
            made |= _calls_of(check, deployment, TableAccount(healthy(), web=web))
    for planted in PLANTED.values():
        if planted.check == check.id:
            made |= _calls_of(check, planted.altered(), planted.account())
            if QUOTA_CALLS[1] not in check.calls:
                continue
            # quotas that an account never had are asked for once more
            answers = {
                **healthy(),
                ("service-quotas", "GetServiceQuota"): Refusal(code="NoSuchResourceException"),
            }
            made |= _calls_of(check, planted.altered(), TableAccount(answers, web=web))
    assert made == {(call.service, call.operation) for call in check.calls}


def test_gate_asks_who_it_is_and_nothing_else() -> None:
    account = TableAccount(healthy())
    list(GATE.look(deployments()["default"], account))
    assert account.calls == [("sts", "GetCallerIdentity")]


@pytest.mark.parametrize(
    ("check", "call"),
    [
        pytest.param(check, call, id=f"{check.id}-{call.action}")
        for check in ALL
        for call in check.calls
        if call.action is not None
    ],
)
def test_missing_permission_is_named_and_never_a_traceback(check: Check, call: Any) -> None:
    denied = Refusal(
        code="AccessDeniedException",
        message=f"User: arn:aws:iam::1:user/x is not authorized to perform: {call.action}",
        status=403,
    )
    found: list[Gap] = []
    scenarios: list[tuple[Deployment, Mapping[Call, Any]]] = [(each, {}) for each in deployments().values()]
    # some calls are made only when something else is wrong
    scenarios += [(each.altered(), each.answers) for each in PLANTED.values() if each.check == check.id]
    for deployment, planted in scenarios:
        if not check.applies(deployment):
            continue
        answers = {**healthy(), **planted, (call.service, call.operation): denied}
        if call.operation == "GetAWSDefaultServiceQuota":
            answers["service-quotas", "GetServiceQuota"] = Refusal(code="NoSuchResourceException")
        report = preflight(deployment, TableAccount(answers, web=web), checks=[check], gate=GATE)
        found = [gap for asked, gap in report.gaps if asked is check]
        if found:
            break
    assert found
    for gap in found:
        assert gap.needs == call.action
        assert f"needs `{call.action}`" in gap.message
        assert gap.message.startswith("could not check ")
        assert "--policy" in gap.fix


def test_deployment_that_is_there_already_takes_nothing_new() -> None:
    """What it owns is not a collision, and what it uses is counted as used."""
    answers = {
        **healthy(),
        ("ssm", "GetParameter"): {"Parameter": {"Value": "30"}},
        ("eks", "DescribeCluster"): {"cluster": {"name": "llama-3-3-70b-p5"}},
        ("s3", "HeadBucket"): {},
        ("service-quotas", "GetServiceQuota"): quota(L_F678F1CE=1.0, L_0263D0A3=1.0, L_1216C47A=4.0),
    }
    report = run(deployments()["default"], TableAccount(answers))
    assert [str(finding) for finding in report.findings] == []


def test_plan_that_begins_while_the_deployment_waits_is_fine() -> None:
    answers = {**healthy(), **_plan(Status="Scheduled", StartTime=NOW + timedelta(hours=2))}
    report = preflight(deployments()["plan"], TableAccount(answers), checks=[by_id("PRE-CAP-001")], gate=GATE)
    assert (report.findings, report.gaps) == ([], [])


def test_own_cluster_does_not_count_against_its_own_quota() -> None:
    deployment = changed(deployments()["default"], hyperpod__cluster_name="training")
    answers = {
        **healthy(),
        ("service-quotas", "GetServiceQuota"): quota(L_8762A75F=2.0),
    }
    report = preflight(deployment, TableAccount(answers), checks=[by_id("PRE-QUO-001")], gate=GATE)
    assert report.findings == []


def test_cluster_that_is_deleted_meanwhile_is_passed_over() -> None:
    answers = {
        **healthy(),
        ("sagemaker", "DescribeCluster"): Refusal(code="ResourceNotFound"),
        ("service-quotas", "GetServiceQuota"): quota(L_8762A75F=2.0),
    }
    report = preflight(
        deployments()["default"], TableAccount(answers), checks=[by_id("PRE-QUO-001")], gate=GATE
    )
    assert (report.findings, report.gaps) == ([], [])


def test_spot_quota_without_a_public_code_is_unknown() -> None:
    deployment = changed(
        deployments()["default"],
        hyperpod__instance_groups__0__instance_type="ml.p5en.48xlarge",
        hyperpod__instance_groups__0__capacity=Spot(type="spot"),
    )
    report = preflight(deployment, TableAccount(healthy()), checks=[by_id("PRE-QUO-001")], gate=GATE)
    ((_, gap),) = report.gaps
    assert "`ml.p5en.48xlarge for cluster spot instance usage`" in gap.message


def test_archive_of_which_s3_knows_no_digest_is_unknown() -> None:
    answers = {**healthy(), ("s3", "HeadObject"): {"ChecksumSHA256": "eA==", "ChecksumType": "COMPOSITE"}}
    report = preflight(
        deployments()["closed"], TableAccount(answers), checks=[by_id("PRE-DAT-003")], gate=GATE
    )
    ((_, gap),) = report.gaps
    assert "S3 keeps no SHA-256" in gap.message


def test_secret_that_may_not_be_read_does_not_hide_the_next() -> None:
    answers = {
        **healthy(),
        ("secretsmanager", "DescribeSecret"): lambda parameters: (
            Refusal(code="AccessDeniedException")
            if parameters["SecretId"] == "hub-token"
            else Refusal(code="ResourceNotFoundException")
        ),
    }
    report = preflight(deployments()["hub"], TableAccount(answers), checks=[by_id("PRE-SEC-001")], gate=GATE)
    assert [gap.what for _, gap in report.gaps] == ["the secret `hub-token`"]
    assert [finding.problem.path for finding in report.findings] == ["routing.api_keys_secret"]


def test_secrets_are_never_shown() -> None:
    answers = {**healthy(), ("secretsmanager", "GetSecretValue"): {"SecretString": "hf_very_secret"}}
    report = run(deployments()["hub"], TableAccount(answers, web=_hub(403)))
    assert report.findings
    assert "hf_very_secret" not in repr(report)


def test_token_goes_to_the_hub_only() -> None:
    sent: dict[str, Mapping[str, str]] = {}

    def record(url: str, headers: Mapping[str, str]) -> WebAnswer:
        sent[url] = headers
        return WebAnswer(status=200)

    run(deployments()["hub"], TableAccount(healthy(), web=record))
    ((url, headers),) = sent.items()
    revision = deployments()["hub"].model.revision
    assert url == f"https://huggingface.co/meta-llama/Llama-3.3-70B-Instruct/resolve/{revision}/config.json"
    assert headers["Authorization"] == "Bearer hf_something"


def test_secrets_that_the_deployment_makes_may_be_absent() -> None:
    answers = {**healthy(), ("secretsmanager", "DescribeSecret"): Refusal(code="ResourceNotFoundException")}
    report = preflight(
        deployments()["default"], TableAccount(answers), checks=[by_id("PRE-SEC-001")], gate=GATE
    )
    assert (report.findings, report.gaps) == ([], [])


def test_a_given_bucket_that_will_be_filled_may_be_empty() -> None:
    answers = {**healthy(), ("s3", "ListObjectsV2"): {"Contents": []}}
    filled = changed(deployments()["bucket"], model__imported_from=HubOrigin(token_secret="hub-token"))
    for deployment, empty in ((filled, []), (deployments()["bucket"], ["model.source.prefix"])):
        report = preflight(deployment, TableAccount(answers), checks=[by_id("PRE-DAT-001")], gate=GATE)
        assert [finding.problem.path for finding in report.findings] == empty


@pytest.mark.parametrize(
    ("named", "manager"), [(KEY, "CUSTOMER"), (None, "AWS")], ids=["named", "the key of S3 itself"]
)
def test_a_model_under_a_key_that_its_readers_may_use_is_no_problem(named: str | None, manager: str) -> None:
    answers = {
        **healthy(),
        ("s3", "HeadObject"): {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KEY},
        ("kms", "DescribeKey"): {"KeyMetadata": {"KeyId": "k", "KeyManager": manager}},
    }
    deployment = changed(deployments()["bucket"], model__source__kms_key_arn=named)
    report = preflight(deployment, TableAccount(answers), checks=[by_id("PRE-DAT-001")], gate=GATE)
    assert not [finding for outcome in report.outcomes for finding in outcome.findings]


def test_a_key_that_may_not_be_described_is_a_gap() -> None:
    answers = {
        **healthy(),
        ("s3", "HeadObject"): {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KEY},
        ("kms", "DescribeKey"): Refusal(code="AccessDeniedException"),
    }
    report = preflight(
        deployments()["bucket"], TableAccount(answers), checks=[by_id("PRE-DAT-001")], gate=GATE
    )
    (gap,) = (gap for outcome in report.outcomes for gap in outcome.gaps)
    assert f"the key `{KEY}` of `bucket: weights`" in str(gap)
    assert "kms:DescribeKey" in str(gap)


def test_endpoints_that_may_be_in_another_vpc_are_asked_for_and_not_called_missing() -> None:
    deployment = changed(
        deployments()["vpc"], network__interface_endpoints=False, network__existing__endpoint_services=()
    )
    report = preflight(deployment, TableAccount(healthy()), checks=[by_id("PRE-NET-006")], gate=GATE)
    assert list(report.findings) == []
    ((_, gap),) = report.gaps
    assert "`vpc-0123456789abcdef0` has none; they may be in another VPC" in gap.message
    assert "`sts`" not in gap.message
    assert "`aps-workspaces.us-east-1.amazonaws.com`" in gap.message
    ecr = endpoint_services(region("us-east-1"), without=("ecr.api", "sts"))
    answers = {**healthy(), **_interfaces(*ecr, "sts")}
    report = preflight(deployment, TableAccount(answers), checks=[by_id("PRE-NET-006")], gate=GATE)
    ((_, gap),) = report.gaps
    assert "could not check the endpoints of `ecr.api`: " in gap.message
    assert "`api.ecr.us-east-1.amazonaws.com`" in gap.message


def test_routes_that_the_account_does_not_see_are_unknown() -> None:
    answers = {**healthy(), ("ec2", "DescribeRouteTables"): {"RouteTables": []}}
    report = preflight(
        deployments()["vpc-of-operator"], TableAccount(answers), checks=[by_id("PRE-NET-005")], gate=GATE
    )
    assert list(report.findings) == []
    assert len(report.gaps) == 3


def test_nodes_that_run_in_an_existing_vpc_have_their_addresses() -> None:
    deployment = changed(deployments()["vpc"], hyperpod__cluster_name="gpus")
    answers = {
        **healthy(),
        ("ssm", "GetParameter"): {"Parameter": {"Value": "30"}},
        # one of `prefill` runs, `decode` is missing
        **_subnet(VPC.gpu_subnet_id, AvailableIpAddressCount=81),
        **_rows(("ec2", "DescribeVpcEndpoints"), 1, ServiceName="com.amazonaws.us-east-1.ecr.api"),
    }
    report = run(deployment, TableAccount(answers, web=web))
    assert [
        str(finding) for finding in report.findings if "NET" in finding.rule or "QUO" in finding.rule
    ] == []


def test_system_nodes_that_the_catalog_does_not_know_are_left_to_the_reader() -> None:
    deployment = changed(deployments()["vpc"], cluster__system_nodes__instance_type="m6id.xlarge")
    report = preflight(deployment, TableAccount(healthy()), checks=[by_id("PRE-NET-004")], gate=GATE)
    ((_, gap),) = report.gaps
    assert "the catalog does not have `m6id.xlarge`" in gap.message
