"""Planted problems of quotas, capacity and zones."""

from datetime import timedelta
from typing import Any

from tests.preflight.aws import NOW, Refusal
from tests.preflight.healthy import PLAN, healthy, quota
from tests.preflight.plant import Call, Planted, training_plan


def _reserved(**changes: Any) -> dict[Call, Any]:
    row = healthy()["sagemaker", "DescribeTrainingPlan"]["ReservedCapacitySummaries"][0]
    return training_plan(ReservedCapacitySummaries=[{**row, **changes}])


PLANTED = {
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
        answers=training_plan(Status="Expired", EndTime=NOW - timedelta(days=2)),
        says=("status `Expired`, ended 2026-11-28 12:00 UTC", "limit `Active` or `Scheduled`"),
    ),
    "plan-not-begun": Planted(
        check="PRE-CAP-001",
        path="hyperpod.instance_groups[0].capacity.arn",
        deployment="plan",
        answers=training_plan(Status="Scheduled", StartTime=NOW + timedelta(hours=30)),
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
        answers=training_plan(AvailableInstanceCount=0),
        says=("others use the training plan's instances", "limit 0 of 2 free"),
    ),
    "plan-for-training-jobs": Planted(
        check="PRE-CAP-001",
        path="hyperpod.instance_groups[0].capacity.arn",
        deployment="plan",
        answers=training_plan(TargetResources=["training-job"]),
        says=("it is for `training-job`", "limit `hyperpod-cluster`"),
    ),
    "vpc-endpoints-over-quota": Planted(
        check="PRE-QUO-007",
        path="network.interface_endpoints",
        deployment="vpc",
        answers={("service-quotas", "GetServiceQuota"): quota(L_29B6F2EB=19.0)},
        says=("19 needed + 1 in use = 20", "limit 19", "endpoints of 19 services in `vpc-0123456789abcdef0`"),
    ),
}
