"""Planted problems of networks that somebody else owns."""

from collections.abc import Mapping
from typing import Any

from tests.preflight.aws import ACCOUNT_ID, Refusal
from tests.preflight.healthy import VPC, healthy
from tests.preflight.plant import Call, Planted, but, row_of, subnet


def _default_route(*routes: Mapping[str, Any]) -> dict[Call, Any]:
    call = ("ec2", "DescribeRouteTables")
    local = healthy()[call]["RouteTables"][0]["Routes"][0]
    rows = [{"DestinationCidrBlock": "0.0.0.0/0", "State": "active", **route} for route in routes]
    return row_of(call, 0, Routes=[local, *rows])


PLANTED = {
    "existing-subnet-full": Planted(
        check="PRE-NET-001",
        path="hyperpod.instance_groups",
        deployment="existing",
        answers=but(("ec2", "DescribeSubnets"), AvailableIpAddressCount=80),
        says=("given `subnet-0123456789abcdef0` (10.1.0.0/20)", "computed 81 addresses", "limit 80 free"),
    ),
    "existing-subnet-elsewhere": Planted(
        check="PRE-NET-001",
        path="hyperpod.instance_groups[0].zone_id",
        besides=("hyperpod.instance_groups[1].zone_id",),
        deployment="existing",
        answers=but(("ec2", "DescribeSubnets"), AvailabilityZoneId="use1-az2"),
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
        answers=but(("ec2", "DescribeVpcs"), OwnerId="210987654321"),
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
        answers=subnet(VPC.gpu_subnet_id, VpcId="vpc-00000000"),
        says=("it is in `vpc-00000000`", "limit `vpc_id: vpc-0123456789abcdef0`"),
    ),
    "vpc-gpu-subnet-elsewhere": Planted(
        check="PRE-NET-003",
        path="network.existing.gpu_subnet_id",
        deployment="vpc",
        answers=subnet(VPC.gpu_subnet_id, AvailabilityZoneId="use1-az4"),
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
        answers=subnet(VPC.system_subnet_ids[1], MapPublicIpOnLaunch=True),
        says=("`MapPublicIpOnLaunch: true`", "private subnets only"),
    ),
    "vpc-gpu-subnet-full": Planted(
        check="PRE-NET-004",
        path="network.existing.gpu_subnet_id",
        deployment="vpc",
        answers=subnet(VPC.gpu_subnet_id, AvailableIpAddressCount=161),
        says=(
            "computed 1 × 81 (nodes of `prefill`) + 1 × 81 (nodes of `decode`) = 162 addresses",
            "limit 161 free",
        ),
    ),
    "vpc-system-subnet-full": Planted(
        check="PRE-NET-004",
        path="network.existing.system_subnet_ids[0]",
        deployment="vpc",
        answers=subnet(VPC.system_subnet_ids[0], AvailableIpAddressCount=148),
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
        answers=row_of(("ec2", "DescribeVpcEndpoints"), 0, RouteTableIds=["rtb-public"]),
        says=(
            "no gateway endpoint of S3",
            "--service-name com.amazonaws.us-east-1.s3 --route-table-ids rtb-main",
        ),
    ),
    "vpc-with-private-names-of-s3": Planted(
        check="PRE-NET-005",
        path="network.existing.vpc_id",
        deployment="vpc",
        answers=row_of(
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
        answers=subnet(VPC.system_subnet_ids[1], CidrBlock="10.20.0.0/28"),
        says=(f"given `{VPC.system_subnet_ids[1]}` (10.20.0.0/28)", "limit /27"),
    ),
    "vpc-untagged": Planted(
        check="PRE-NET-007",
        path="network.existing.vpc_id",
        deployment="vpc-of-operator",
        answers=subnet(VPC.system_subnet_ids[1], Tags=[]),
        says=(
            "computed 1 zones with subnets tagged `kubernetes.io/role/internal-elb: 1`",
            f"--resources {' '.join(VPC.system_subnet_ids)} --tags Key=kubernetes.io/role/internal-elb,Value=1",
        ),
    ),
    "vpc-tagged-for-another-cluster": Planted(
        check="PRE-NET-007",
        path="network.existing.vpc_id",
        deployment="vpc-of-operator",
        answers=subnet(
            VPC.system_subnet_ids[1],
            Tags=[
                {"Key": "kubernetes.io/role/internal-elb", "Value": "1"},
                {"Key": "kubernetes.io/cluster/theirs", "Value": "shared"},
            ],
        ),
        says=("limit 2 zones",),
    ),
}
