"""Answers of an account in which the deployments of the tests would work, and those deployments."""

import base64
import json
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

from hyperpod_dpd.catalog.eks import addons, kubernetes_versions
from hyperpod_dpd.derive.alerts import PUBLISHERS
from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.spec import (
    Alerts,
    DependenciesChart,
    Deployment,
    ExistingCluster,
    FsxSource,
    HuggingFaceSource,
    Images,
    InferenceOperator,
    LoadBalancer,
    S3Source,
    Spot,
    TrainingPlan,
)
from tests.preflight.aws import ACCOUNT_ID, NOW, Answers, Parameters, Refusal, Reply, WebAnswer
from tests.support.deployments import EXISTING_VPC, changed, ready

DIGEST = "sha256:" + "ab" * 32
IMAGE = f"{ACCOUNT_ID}.dkr.ecr.us-east-1.amazonaws.com/dpd-worker@{DIGEST}"
PLAN = f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}:training-plan/p5"
TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT_ID}:alerts"
CERTIFICATE = f"arn:aws:acm:us-east-1:{ACCOUNT_ID}:certificate/12345678-1234-1234-1234-123456789012"
ARCHIVE = "cd" * 32
VPC = replace(EXISTING_VPC, cluster_subnet_ids=None, endpoint_services=())


@cache
def deployments() -> dict[str, Deployment]:
    """Deployments that together give reason for every check, by name."""
    default = ready()
    return {
        "default": default,
        "account": changed(default, account=ACCOUNT_ID),
        "closed": changed(
            default,
            network__egress="closed",
            cluster__dependencies_chart=DependenciesChart(
                source="s3", s3_uri="s3://archives/dependencies.tar.gz", sha256=ARCHIVE
            ),
            platform__inference_operator=InferenceOperator(tls_bucket="hyperpod-tls-mine"),
            routing__load_balancer=LoadBalancer(certificate_arn=CERTIFICATE),
            platform__grafana="managed",
            platform__alerts=Alerts(topic_arn=TOPIC),
        ),
        "plan": changed(
            default,
            hyperpod__instance_groups__0__capacity=TrainingPlan(type="training-plan", arn=PLAN),
            hyperpod__instance_groups__1__capacity=Spot(type="spot"),
        ),
        "bucket": changed(default, model__source=S3Source(bucket="weights", prefix="llama")),
        "fsx": changed(
            default,
            model__source=FsxSource(
                type="fsx",
                file_system_id="fs-0123456789abcdef0",
                dns_name="fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
                mount_name="abcdefgh",
            ),
        ),
        "hub": changed(
            default,
            model__source=HuggingFaceSource(type="huggingface", token_secret="hub-token"),
            routing__api_keys_secret="api-keys",
        ),
        "existing": changed(
            default, cluster__existing=ExistingCluster(eks_name="shared", hyperpod_name="gpus")
        ),
        "vpc": changed(
            default,
            network__existing=VPC,
            network__egress="closed",
            network__interface_endpoints=True,
            network__existing__endpoint_services=("sts",),
            routing__load_balancer=LoadBalancer(certificate_arn=CERTIFICATE),
        ),
        "vpc-of-operator": changed(on_backend(default, "operator"), network__existing=VPC),
        "images": changed(
            default,
            platform__images=Images(source="given", worker=IMAGE),
            serving__engine__name="hyperpod-v1.1",
        ),
    }


def healthy() -> dict[tuple[str, str], Any]:
    """Return a new table of answers; tests replace what they plant."""
    return {**_ACCOUNT, **_NETWORK, **_CLUSTERS, **_DATA, **_PLATFORM}


def web(url: str, headers: Any) -> WebAnswer:
    """The Hub knows the model and the token, a registry wants an anonymous token first."""
    if "/v2/" in url and "Authorization" not in headers:
        challenge = 'Bearer realm="https://public.ecr.aws/token/",service="public.ecr.aws"'
        return WebAnswer(status=401, fields=(("WWW-Authenticate", challenge),))
    return WebAnswer(status=200)


def _parameter(parameters: Parameters) -> Reply:
    if parameters["Name"] == "/cdk-bootstrap/hnb659fds/version":
        return {"Parameter": {"Name": parameters["Name"], "Value": "30"}}
    return Refusal(code="ParameterNotFound")


def _allowed(parameters: Parameters) -> Reply:
    return {
        "EvaluationResults": [
            {
                "EvalActionName": action,
                "EvalDecision": "allowed",
                "OrganizationsDecisionDetail": {"AllowedByOrganizations": True},
            }
            for action in parameters["ActionNames"]
        ]
    }


def quota(**values: float) -> Any:
    """Answer quotas by code (with `_` for `-`), every other with a thousand."""

    def answer(parameters: Parameters) -> Reply:
        code = parameters["QuotaCode"]
        return {"Quota": {"QuotaCode": code, "Value": values.get(code.replace("-", "_"), 1000.0)}}

    return answer


_ACCOUNT: Answers = {
    ("sts", "GetCallerIdentity"): {
        "Account": ACCOUNT_ID,
        "Arn": f"arn:aws:iam::{ACCOUNT_ID}:user/tester",
        "UserId": "AIDA",
    },
    ("ec2", "DescribeRegions"): {
        "Regions": [{"RegionName": "us-east-1", "OptInStatus": "opt-in-not-required", "Endpoint": "x"}]
    },
    ("ssm", "GetParameter"): _parameter,
    ("iam", "SimulatePrincipalPolicy"): _allowed,
    ("cloudformation", "DescribeStacks"): {
        "Stacks": [{"StackName": "any", "CreationTime": NOW, "StackStatus": "CREATE_COMPLETE"}]
    },
    ("iam", "GetRole"): Refusal(code="NoSuchEntity", status=404),
    ("service-quotas", "GetServiceQuota"): quota(),
    ("service-quotas", "GetAWSDefaultServiceQuota"): quota(),
}

_NETWORK: Answers = {
    ("ec2", "DescribeAvailabilityZones"): {
        "AvailabilityZones": [
            {"ZoneId": f"use1-az{number}", "State": "available", "OptInStatus": "opt-in-not-required"}
            for number in range(1, 7)
        ]
    },
    ("ec2", "DescribeInstanceTypeOfferings"): {
        "InstanceTypeOfferings": [
            {"InstanceType": name, "LocationType": "availability-zone-id", "Location": f"use1-az{number}"}
            for name in ("p5.48xlarge", "m6i.xlarge")
            for number in (4, 6)
        ]
    },
    ("ec2", "DescribeVpcs"): {
        "Vpcs": [
            {
                "VpcId": VPC.vpc_id,
                "OwnerId": ACCOUNT_ID,
                "CidrBlockAssociationSet": [
                    {"CidrBlock": cidr, "CidrBlockState": {"State": "associated"}} for cidr in VPC.cidrs
                ],
            }
        ]
    },
    ("ec2", "DescribeVpcAttribute"): {
        "EnableDnsSupport": {"Value": True},
        "EnableDnsHostnames": {"Value": True},
    },
    ("ec2", "DescribeRouteTables"): {
        "RouteTables": [
            {
                "RouteTableId": "rtb-main",
                "Associations": [{"Main": True}],
                "Routes": [
                    {"DestinationCidrBlock": "10.20.0.0/16", "GatewayId": "local", "State": "active"},
                    {"DestinationCidrBlock": "0.0.0.0/0", "TransitGatewayId": "tgw-1", "State": "active"},
                ],
            }
        ]
    },
    ("ec2", "DescribeVpcEndpoints"): {
        "VpcEndpoints": [
            {
                "ServiceName": "com.amazonaws.us-east-1.s3",
                "VpcEndpointType": "Gateway",
                "State": "available",
                "RouteTableIds": ["rtb-main"],
            },
            {
                "ServiceName": "com.amazonaws.us-east-1.sts",
                "VpcEndpointType": "Interface",
                "State": "available",
                "PrivateDnsEnabled": True,
            },
        ]
    },
    ("ec2", "DescribeInternetGateways"): {"InternetGateways": [{"InternetGatewayId": "igw-1"}]},
    ("ec2", "DescribeAddresses"): {"Addresses": [{"PublicIp": "192.0.2.1"}]},
    ("ec2", "DescribeNetworkInterfaces"): {"NetworkInterfaces": [{"NetworkInterfaceId": "eni-1"}]},
    ("ec2", "DescribeInstances"): {
        "Reservations": [
            {
                "Instances": [
                    {"InstanceType": "m5.xlarge", "CpuOptions": {"CoreCount": 2, "ThreadsPerCore": 2}},
                    {"InstanceType": "p5.48xlarge", "CpuOptions": {"CoreCount": 96, "ThreadsPerCore": 2}},
                ]
            }
        ]
    },
    ("ec2", "DescribeSubnets"): {
        "Subnets": [
            {
                "SubnetId": subnet_id,
                "VpcId": VPC.vpc_id,
                "AvailabilityZoneId": zone_id,
                "AvailableIpAddressCount": 4000,
                "CidrBlock": "10.1.0.0/20",
                "MapPublicIpOnLaunch": False,
                "Tags": [{"Key": "kubernetes.io/role/internal-elb", "Value": "1"}],
            }
            for subnet_id, zone_id in {
                "subnet-0123456789abcdef0": "use1-az6",
                VPC.gpu_subnet_id: "use1-az6",
                **dict(zip(VPC.system_subnet_ids, ("use1-az6", "use1-az4"), strict=True)),
            }.items()
        ]
    },
}


def _describe_eks(parameters: Parameters) -> Reply:
    if parameters["name"] != "shared":
        return Refusal(code="ResourceNotFoundException", status=404)
    return {
        "cluster": {
            "name": "shared",
            "status": "ACTIVE",
            "version": "1.35",
            "accessConfig": {"authenticationMode": "API"},
        }
    }


def _describe_hyperpod(parameters: Parameters) -> Reply:
    names = ("gpus", "training")
    if parameters["ClusterName"] not in names:
        return Refusal(code="ResourceNotFound")
    group = {"InstanceGroupName": "prefill", "InstanceType": "ml.p5.48xlarge"}
    return {
        "ClusterArn": f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}:cluster/abcdefghijkl",
        "ClusterStatus": "InService",
        "Orchestrator": {"Eks": {"ClusterArn": f"arn:aws:eks:us-east-1:{ACCOUNT_ID}:cluster/shared"}},
        "VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-0123456789abcdef0"]},
        "InstanceGroups": [{**group, "CurrentCount": 1, "TargetCount": 2}],
    }


_CLUSTERS: Answers = {
    ("eks", "DescribeCluster"): _describe_eks,
    ("eks", "DescribeAddon"): {"addon": {"addonName": "vpc-cni", "addonVersion": "v1.20.0-eksbuild.1"}},
    ("eks", "DescribeClusterVersions"): {
        "clusterVersions": [
            {"clusterVersion": row.version, "versionStatus": "STANDARD_SUPPORT"}
            for row in kubernetes_versions()
        ]
    },
    ("eks", "DescribeAddonVersions"): {
        "addons": [
            {
                "addonName": row.name,
                "addonVersions": [{"addonVersion": row.pin("1.35") or "v1.2.0-eksbuild.3"}],
            }
            for row in addons()
        ]
    },
    ("sagemaker", "ListClusters"): {
        "ClusterSummaries": [
            {
                "ClusterArn": f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}:cluster/abcdefghijkl",
                "ClusterName": "training",
                "CreationTime": NOW,
                "ClusterStatus": "InService",
            }
        ]
    },
    ("sagemaker", "DescribeCluster"): _describe_hyperpod,
    ("sagemaker", "DescribeTrainingPlan"): {
        "TrainingPlanArn": PLAN,
        "TrainingPlanName": "p5",
        "Status": "Active",
        "StartTime": NOW - timedelta(days=1),
        "EndTime": NOW + timedelta(days=6),
        "TotalInstanceCount": 2,
        "TargetResources": ["hyperpod-cluster"],
        "ReservedCapacitySummaries": [
            {
                "ReservedCapacityArn": "arn:aws:sagemaker:us-east-1:123456789012:reserved-capacity/p5",
                "InstanceType": "ml.p5.48xlarge",
                "TotalInstanceCount": 2,
                "Status": "Active",
                "AvailabilityZoneId": "use1-az6",
            }
        ],
    },
}


def _list_bucket(parameters: Parameters) -> Reply:
    if parameters["Bucket"] == "archives":
        return {"Contents": [{"Key": parameters["Prefix"], "Size": 40_000_000}]}
    return {
        "Contents": [
            {"Key": "llama/config.json", "Size": 800},
            {"Key": "llama/model-00001-of-00030.safetensors", "Size": 5_000_000_000},
        ]
    }


_DATA: Answers = {
    ("s3", "HeadBucket"): {"BucketRegion": "us-east-1"},
    ("s3", "ListObjectsV2"): _list_bucket,
    ("s3", "HeadObject"): {
        "ContentLength": 800,
        "ChecksumSHA256": base64.b64encode(bytes.fromhex(ARCHIVE)).decode(),
        "ChecksumType": "FULL_OBJECT",
    },
    ("kms", "DescribeKey"): {"KeyMetadata": {"KeyId": "k", "KeyManager": "CUSTOMER"}},
    ("fsx", "DescribeFileSystems"): {
        "FileSystems": [
            {
                "FileSystemId": "fs-0123456789abcdef0",
                "FileSystemType": "LUSTRE",
                "Lifecycle": "AVAILABLE",
                "DNSName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
                "SubnetIds": ["subnet-0123456789abcdef0"],
                "LustreConfiguration": {"MountName": "abcdefgh"},
            }
        ]
    },
    ("secretsmanager", "DescribeSecret"): {"Name": "any"},
    ("secretsmanager", "GetSecretValue"): {"SecretString": "hf_something\n"},
}

_PLATFORM: Answers = {
    ("ecr", "DescribeImages"): {"imageDetails": [{"imageDigest": DIGEST}]},
    ("amp", "ListWorkspaces"): {"workspaces": []},
    ("grafana", "ListWorkspaces"): {"workspaces": []},
    ("sns", "GetTopicAttributes"): {
        "Attributes": {
            "TopicArn": TOPIC,
            "Policy": json.dumps(
                {
                    "Statement": [
                        {"Effect": "Allow", "Principal": {"AWS": "123456789012"}, "Action": "SNS:Subscribe"},
                        {
                            "Effect": "Allow",
                            "Principal": {"Service": [f"{name}.amazonaws.com" for name in PUBLISHERS]},
                            "Action": ["SNS:Publish", "SNS:GetTopicAttributes"],
                            "Condition": {"StringEquals": {"aws:SourceAccount": ACCOUNT_ID}},
                        },
                    ]
                }
            ),
        }
    },
    ("sso-admin", "ListInstances"): {
        "Instances": [{"InstanceArn": "arn:aws:sso:::instance/ssoins-0123456789abcdef"}]
    },
    ("acm", "DescribeCertificate"): {
        "Certificate": {"Status": "ISSUED", "NotAfter": NOW + timedelta(days=200)}
    },
}
