"""Cases of the rules about the network."""

from typing import Any

from tests.unit.rules.example import Bad, Example

_GROUPS = "hyperpod.instance_groups"


def _self_rule(kind: str, **changes: Any) -> dict[str, Any]:
    peer = "SourceSecurityGroupId" if kind == "Ingress" else "DestinationSecurityGroupId"
    group = {"Fn::GetAtt": ["Efa", "GroupId"]}
    return {
        "Type": f"AWS::EC2::SecurityGroup{kind}",
        "Properties": {"IpProtocol": "-1", "GroupId": group, peer: group, **changes},
    }


def _efa(description: str = "EFA traffic between HyperPod nodes", **rules: Any) -> dict[str, Any]:
    group = {"Type": "AWS::EC2::SecurityGroup", "Properties": {"GroupDescription": description}}
    return {"Resources": {"Efa": group, **rules}}


def _cluster_with(group: object) -> dict[str, Any]:
    return {"Type": "AWS::SageMaker::Cluster", "Properties": {"VpcConfig": {"SecurityGroupIds": [group]}}}


_OPEN_EGRESS = {
    "Type": "AWS::EC2::SecurityGroupEgress",
    "Properties": {"IpProtocol": "-1", "GroupId": {"Ref": "Efa"}, "CidrIp": "0.0.0.0/0"},
}


def _vpc(**resources: Any) -> dict[str, Any]:
    return {
        "Resources": {
            "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.192.0.0/16"}},
            **resources,
        }
    }


def _s3_endpoint(**changes: Any) -> dict[str, Any]:
    service = {"Fn::Join": ["", ["com.amazonaws.", {"Ref": "AWS::Region"}, ".s3"]]}
    given = {"VpcId": {"Ref": "Vpc"}, "ServiceName": service, "VpcEndpointType": "Gateway"}
    return {"Type": "AWS::EC2::VPCEndpoint", "Properties": {**given, **changes}}


def _flow_log(traffic: str) -> dict[str, Any]:
    return {"Type": "AWS::EC2::FlowLog", "Properties": {"ResourceId": {"Ref": "Vpc"}, "TrafficType": traffic}}


def _subnet(cidr: str = "10.1.0.0/16", depends_on: object = None, **given: Any) -> dict[str, Any]:
    subnet: dict[str, Any] = {"Type": "AWS::EC2::Subnet", "Properties": {"CidrBlock": cidr, **given}}
    return {**subnet, "DependsOn": depends_on} if depends_on else subnet


_BLOCK = {"Type": "AWS::EC2::VPCCidrBlock", "Properties": {"CidrBlock": "10.1.0.0/16"}}
_SERVICES = (
    *("ec2", "ec2messages", "ecr.api", "ecr.dkr", "eks", "eks-auth"),
    *("logs", "monitoring", "ssm", "ssmmessages", "sts"),
)


def _interface(service: str) -> dict[str, Any]:
    given = {
        "VpcEndpointType": "Interface",
        "ServiceName": f"com.amazonaws.us-east-1.{service}",
        "SecurityGroupIds": [{"Fn::GetAtt": ["Group", "GroupId"]}],
    }
    return {"Type": "AWS::EC2::VPCEndpoint", "Properties": given}


def _https_from(*cidrs: str, port: int = 443) -> dict[str, Any]:
    ingress = [{"CidrIp": cidr, "IpProtocol": "tcp", "FromPort": port, "ToPort": port} for cidr in cidrs]
    return {"Type": "AWS::EC2::SecurityGroup", "Properties": {"SecurityGroupIngress": ingress}}


_SUBNETS = tuple(f"subnet-0000000000000000{number}" for number in range(6))


def _existing(**changes: Any) -> dict[str, Any]:
    given = {"vpc_id": "vpc-0123456789abcdef0", "cidrs": ["10.20.0.0/16"], "gpu_subnet_id": _SUBNETS[0]}
    return {"network.existing": {**given, "system_subnet_ids": list(_SUBNETS[1:3]), **changes}}


def _let_in(protocol: str, **ports: int) -> dict[str, Any]:
    """Return a VPC with an endpoint whose group lets `protocol` in from everywhere in it."""
    rule = {"GroupId": {"Ref": "Group"}, "CidrIp": "10.192.0.0/16", "IpProtocol": protocol, **ports}
    return _vpc(
        Group={"Type": "AWS::EC2::SecurityGroup"},
        Rule={"Type": "AWS::EC2::SecurityGroupIngress", "Properties": rule},
        Endpoint=_interface("sts"),
    )


_NODE_GROUP = {"Type": "AWS::EKS::Nodegroup", "Properties": {"Subnets": [{"Ref": "Subnet"}]}}

EXAMPLES = (
    Example(
        rule="DPD-NET-001",
        good=(
            _efa(In=_self_rule("Ingress"), Out=_self_rule("Egress")),
            _efa(In=_self_rule("Ingress"), Out=_self_rule("Egress"), Open=_OPEN_EGRESS),
            _efa(description="Interface endpoints"),
        ),
        bad=(
            Bad(case=_efa(In=_self_rule("Ingress")), at="Resources.Efa", mentions=("egress", "`Efa`")),
            # what CDK emits for `allow_all_outbound=True`: the self rule is silently not there
            Bad(
                case=_efa(In=_self_rule("Ingress"), Open=_OPEN_EGRESS),
                at="Resources.Efa",
                mentions=("egress",),
            ),
            Bad(case=_efa(Out=_self_rule("Egress")), at="Resources.Efa", mentions=("ingress",)),
            Bad(case=_efa(), at="Resources.Efa", besides=("Resources.Efa",), mentions=("ingress", "egress")),
            Bad(
                case=_efa(In=_self_rule("Ingress"), Out=_self_rule("Egress", IpProtocol="tcp")),
                at="Resources.Efa",
                mentions=("egress",),
            ),
            Bad(
                case={"Resources": {**_efa("Nodes")["Resources"], "Cluster": _cluster_with({"Ref": "Efa"})}},
                at="Resources.Efa",
                besides=("Resources.Efa",),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-002",
        good=({}, {"network.egress": "closed"}, {"network.interface_endpoints": False}),
        bad=(
            Bad(
                case={"network.interface_endpoints": True},
                at="network.interface_endpoints",
                mentions=("`egress: nat`",),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-003",
        good=({}, {f"{_GROUPS}.1.zone_id": "use1-az6"}),
        bad=(
            Bad(
                case={f"{_GROUPS}.1.zone_id": "use1-az4"},
                at=f"{_GROUPS}[1].zone_id",
                mentions=("`decode`", "use1-az4", "use1-az6"),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-004",
        good=(
            {},
            {"network.cidr": "10.192.0.0/20", "network.gpu_cidr": "100.64.0.0/28"},
            {"network.cidr": "192.168.0.0/16"},
        ),
        bad=(
            Bad(
                case={"network.cidr": "10.0.0.0/15"}, at="network.cidr", mentions=("131,072 addresses", "/16")
            ),
            Bad(
                case={"network.cidr": "10.0.0.0/21"},
                at="network.cidr",
                mentions=("/20", "cut into 256 subnets of /28"),
            ),
            Bad(
                case={"network.gpu_cidr": "10.1.0.0/29"},
                at="network.gpu_cidr",
                mentions=("8 addresses", "/28 (16 addresses)"),
            ),
            Bad(case={"network.gpu_cidr": "10.1.0.1/16"}, at="network.gpu_cidr", mentions=("`10.1.0.0/16`",)),
            Bad(case={"network.gpu_cidr": "10.1.0.0"}, at="network.gpu_cidr", mentions=("no prefix length",)),
            Bad(case={"network.cidr": "10.0.0.256/16"}, at="network.cidr"),
            Bad(case={"network.cidr": "fd00::/16"}, at="network.cidr"),
            Bad(case={"network.cidr": "52.1.0.0/16"}, at="network.cidr", mentions=("not private",)),
        ),
    ),
    Example(
        rule="DPD-NET-005",
        good=({}, {"network.cidr": "10.0.0.0/16"}),
        bad=(
            Bad(
                case={"network.cidr": "10.1.0.0/20"},
                at="network.gpu_cidr",
                mentions=("10.1.0.0/16", "10.1.0.0/20"),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-006",
        good=(
            {},
            {"network.gpu_cidr": "100.64.0.0/16"},
            {"network.cidr": "192.168.0.0/20", "network.gpu_cidr": "192.168.64.0/18"},
        ),
        bad=(
            Bad(
                case={"network.gpu_cidr": "172.16.0.0/16"},
                at="network.gpu_cidr",
                mentions=("172.16.0.0/12", "choose both from 10.0.0.0/8"),
            ),
            Bad(
                case={"network.cidr": "100.64.0.0/16"},
                at="network.gpu_cidr",
                mentions=("beside a primary one from 100.64.0.0/10", "choose both from 10.0.0.0/8"),
            ),
            Bad(
                case={"network.cidr": "192.168.0.0/16"},
                at="network.gpu_cidr",
                mentions=("10.0.0.0/8", "choose both from 192.168.0.0/16"),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-007",
        good=(
            {**_existing(), f"{_GROUPS}.0.count": 1000},
            # 2 × 81 + 5 = 167
            {"network.gpu_cidr": "10.1.0.0/24"},
            # 3 × 81 + 5 = 248 of 256
            {"network.gpu_cidr": "10.1.0.0/24", f"{_GROUPS}.0.count": 2},
            # 6 × 65 + 1 × 81 + 5 = 476 of 512
            {
                "network.gpu_cidr": "10.1.0.0/23",
                f"{_GROUPS}.1.count": 6,
                f"{_GROUPS}.1.instance_type": "ml.p5en.48xlarge",
            },
        ),
        bad=(
            Bad(
                case={"network.gpu_cidr": "10.1.0.0/25"},
                at="network.gpu_cidr",
                mentions=(
                    "1 × 81 (`prefill`) + 1 × 81 (`decode`) + 5",
                    "167 addresses",
                    "128 addresses",
                    "/24",
                ),
            ),
            # 4 × 81 + 5 = 329 > 256: AWS's own sizing table forgets the other addresses
            Bad(
                case={"network.gpu_cidr": "10.1.0.0/24", f"{_GROUPS}.0.count": 3},
                at="network.gpu_cidr",
                mentions=("329 addresses", "256 addresses", "/23"),
            ),
            Bad(case={f"{_GROUPS}.0.count": 900}, at="network.gpu_cidr", mentions=("fewer nodes", "72,986")),
        ),
    ),
    Example(
        rule="DPD-NET-008",
        good=({}, {"region": "mars-1"}),
        bad=(
            Bad(
                case={"network.gpu_zone_id": "usw2-az2"},
                at="network.gpu_zone_id",
                mentions=("usw2-az2", "us-west-2", "us-east-1"),
            ),
            Bad(
                case={"network.cluster_zone_ids": ["use1-az6", "us-east-1a"]},
                at="network.cluster_zone_ids[1]",
                mentions=("us-east-1a", "zone ids, not zone names"),
            ),
            Bad(
                case={f"{_GROUPS}.0.zone_id": "use1-az9"}, at=f"{_GROUPS}[0].zone_id", mentions=("use1-az9",)
            ),
        ),
    ),
    Example(
        rule="DPD-NET-009",
        good=({}, {"network.gpu_zone_id": "use1-az3"}),
        bad=(
            Bad(
                case={"network.cluster_zone_ids": ["use1-az6", "use1-az3"]},
                at="network.cluster_zone_ids[1]",
                mentions=("`use1-az3`", "use1-az1"),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-010",
        good=({},),
        bad=(
            Bad(
                case={"network.cluster_zone_ids": ["use1-az6", "use1-az6"]},
                at="network.cluster_zone_ids[1]",
                mentions=("`use1-az6`",),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-011",
        good=(
            {"network.egress": "closed"},
            {"network.interface_endpoints": False},
            {**_existing(), "network.egress": "closed"},
        ),
        bad=(
            Bad(
                case={"network.egress": "closed", "network.interface_endpoints": False},
                at="network.interface_endpoints",
                mentions=("`interface_endpoints: false`",),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-012",
        good=(
            {},
            {
                "network.egress": "closed",
                "cluster.dependencies_chart.source": "s3",
                "platform.images.mirror_public_images": True,
            },
            {
                "network.egress": "closed",
                "cluster.existing": {"eks_name": "shared", "hyperpod_name": "shared"},
                "platform.images.mirror_public_images": True,
            },
        ),
        bad=(
            Bad(
                case={"network.egress": "closed"},
                at="cluster.dependencies_chart.source",
                besides=("platform.images.mirror_public_images",),
                mentions=("GitHub",),
            ),
            Bad(
                case={
                    "network.egress": "closed",
                    "cluster.dependencies_chart.source": "s3",
                    "platform.images.mirror_public_images": True,
                    "model.source": {"type": "huggingface"},
                },
                at="model.source.type",
                mentions=("Hugging Face",),
            ),
            Bad(
                case={"network.egress": "closed", "cluster.dependencies_chart.source": "s3"},
                at="platform.images.mirror_public_images",
            ),
        ),
    ),
    Example(
        rule="DPD-NET-013",
        good=(_vpc(Endpoint=_s3_endpoint()), {"Resources": {}}),
        bad=(
            Bad(case=_vpc(), at="Resources.Vpc", mentions=("`Vpc`",)),
            Bad(case=_vpc(Endpoint=_s3_endpoint(VpcEndpointType="Interface")), at="Resources.Vpc"),
            Bad(
                case=_vpc(Endpoint=_s3_endpoint(ServiceName="com.amazonaws.us-east-1.dynamodb")),
                at="Resources.Vpc",
            ),
            Bad(case=_vpc(Endpoint=_s3_endpoint(VpcId={"Ref": "Other"})), at="Resources.Vpc"),
        ),
    ),
    Example(
        rule="DPD-NET-014",
        good=({"Resources": {"Subnet": _subnet(AvailabilityZoneId="use1-az6")}},),
        bad=(
            Bad(
                case={"Resources": {"Subnet": _subnet(AvailabilityZone="us-east-1a")}},
                at="Resources.Subnet.Properties",
                mentions=("us-east-1a",),
            ),
            Bad(
                case={"Resources": {"Subnet": _subnet()}},
                at="Resources.Subnet.Properties",
                mentions=("no zone",),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-015",
        good=(
            {"Resources": {"Block": _BLOCK, "Subnet": _subnet(depends_on=["Block"])}},
            {"Resources": {"Block": _BLOCK, "Subnet": _subnet(depends_on="Block")}},
            {"Resources": {"Block": _BLOCK, "Subnet": _subnet("10.192.0.0/24")}},
        ),
        bad=(
            Bad(
                case={"Resources": {"Block": _BLOCK, "Subnet": _subnet()}},
                at="Resources.Subnet.DependsOn",
                mentions=("`DependsOn: Block`", "10.1.0.0/16"),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-016",
        good=(_vpc(Log=_flow_log("ALL")),),
        bad=(
            Bad(case=_vpc(), at="Resources.Vpc"),
            Bad(case=_vpc(Log=_flow_log("REJECT")), at="Resources.Vpc", mentions=("`TrafficType: ALL`",)),
        ),
    ),
    Example(
        rule="DPD-NET-017",
        good=(
            {"Resources": {"Nodes": _NODE_GROUP, "Subnet": _subnet(MapPublicIpOnLaunch=False)}},
            # a cluster without a network of its own
            {"Resources": {"Cluster": {"Type": "AWS::SageMaker::Cluster", "Properties": {}}}},
        ),
        bad=(
            Bad(
                case={
                    "Resources": {
                        "Cluster": {
                            "Type": "AWS::SageMaker::Cluster",
                            "Properties": {"VpcConfig": {"Subnets": [{"Ref": "Subnet"}]}},
                        },
                        "Subnet": _subnet(MapPublicIpOnLaunch=True),
                    }
                },
                at="Resources.Cluster.Properties",
                mentions=("`Subnet`",),
            ),
            Bad(
                case={"Resources": {"Nodes": _NODE_GROUP, "Subnet": _subnet(MapPublicIpOnLaunch=True)}},
                at="Resources.Nodes.Properties",
                mentions=("`Subnet`",),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-020",
        good=({}, {"network.cidr": "172.21.0.0/16"}, _existing(cidrs=["172.21.0.0/16"])),
        bad=(
            Bad(case={"network.cidr": "172.20.0.0/16"}, at="network.cidr", mentions=("172.20.0.0/16",)),
            Bad(
                case={"network.gpu_cidr": "172.20.64.0/20"},
                at="network.gpu_cidr",
                mentions=("172.20.64.0/20",),
            ),
            Bad(
                case=_existing(cidrs=["10.20.0.0/16", "172.20.128.0/17"]),
                at="network.existing.cidrs[1]",
                mentions=("`cidrs: 172.20.128.0/17`", "another VPC"),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-021",
        good=(
            _vpc(Block=_BLOCK, Group=_https_from("10.192.0.0/16", "10.1.0.0/16"), Endpoint=_interface("sts")),
            _vpc(Block=_BLOCK, Group=_https_from("10.0.0.0/8"), Endpoint=_interface("sts")),
            _vpc(Block=_BLOCK, Group=_https_from()),
            # a gateway endpoint has no security group that counts
            _vpc(Group=_https_from(), Endpoint=_s3_endpoint(SecurityGroupIds=[{"Ref": "Group"}])),
            _let_in("-1"),
            _let_in("tcp", FromPort=443, ToPort=443),
            _let_in("6", FromPort=0, ToPort=65535),
        ),
        bad=(
            Bad(
                case=_vpc(Block=_BLOCK, Group=_https_from("10.192.0.0/16"), Endpoint=_interface("sts")),
                at="Resources.Group.Properties.SecurityGroupIngress",
                mentions=("`10.192.0.0/16`", "let TCP 443 in from `10.1.0.0/16`"),
            ),
            Bad(
                case=_vpc(Group=_https_from("10.192.0.0/16", port=80), Endpoint=_interface("sts")),
                at="Resources.Group.Properties.SecurityGroupIngress",
                mentions=("no HTTPS",),
            ),
            *(
                Bad(
                    case=case,
                    at="Resources.Group.Properties.SecurityGroupIngress",
                    mentions=("no HTTPS",),
                )
                for case in (
                    _let_in("udp", FromPort=443, ToPort=443),
                    _let_in("tcp", FromPort=0, ToPort=442),
                    _let_in("tcp", FromPort=444, ToPort=65535),
                )
            ),
        ),
    ),
    Example(
        rule="DPD-NET-022",
        good=(_vpc(), _vpc(**{f"Endpoint{n}": _interface(name) for n, name in enumerate(_SERVICES)})),
        bad=(
            Bad(
                case=_vpc(**{f"Endpoint{n}": _interface(name) for n, name in enumerate(_SERVICES[1:])}),
                at="Resources.Vpc",
                mentions=("`ec2`", "10 endpoints"),
            ),
            # `eks-auth` is not `eks`
            Bad(case=_vpc(Endpoint=_interface("eks-auth")), at="Resources.Vpc", mentions=("`eks`",)),
        ),
    ),
    Example(
        rule="DPD-NET-023",
        good=({}, {"routing.load_balancer": {"inbound_cidrs": ["198.51.100.0/24", "10.0.0.0/8"]}}),
        bad=(
            Bad(
                case={"routing.load_balancer": {"inbound_cidrs": ["10.0.0.0/8", "198.51.100.7/24"]}},
                at="routing.load_balancer.inbound_cidrs[1]",
                mentions=("`198.51.100.7/24`", "`198.51.100.0/24`"),
            ),
            Bad(
                case={"routing.load_balancer": {"inbound_cidrs": ["300.1.1.1/16"]}},
                at="routing.load_balancer.inbound_cidrs[0]",
                mentions=("0 to 255",),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-024",
        good=(
            {},
            {"routing.load_balancer": {"scheme": "internet-facing"}, "network.cidr": "10.0.0.0/19"},
            {"routing.load_balancer": {"scheme": "internal"}, "network.cidr": "10.0.0.0/20"},
            {
                "routing.load_balancer": {"scheme": "internet-facing"},
                "network.cidr": "10.0.0.0/20",
                "cluster.existing": {"eks_name": "llama", "hyperpod_name": "shared"},
            },
            {**_existing(), "routing.load_balancer": {"scheme": "internal"}},
            {
                **_existing(load_balancer_subnet_ids=list(_SUBNETS[3:5])),
                "routing.load_balancer": {"scheme": "internet-facing"},
            },
        ),
        bad=(
            Bad(
                case={**_existing(), "routing.load_balancer": {"scheme": "internet-facing"}},
                at="routing.load_balancer.scheme",
                mentions=("`network.existing.load_balancer_subnet_ids`", "`scheme: internal`"),
            ),
            Bad(
                case={"routing.load_balancer": {"scheme": "internet-facing"}, "network.cidr": "10.0.0.0/20"},
                at="network.cidr",
                mentions=("public subnets of /28", "/27 and 8 free addresses", "`cidr` of /19"),
            ),
            Bad(
                case={"routing.load_balancer": {"scheme": "internet-facing"}, "network.egress": "closed"},
                at="routing.load_balancer.scheme",
                mentions=("`egress: closed`", "`scheme: internal`"),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-025",
        good=({}, _existing(cidrs=["10.20.0.0/16", "100.64.0.0/16", "10.21.0.16/28"])),
        bad=(
            Bad(
                case=_existing(cidrs=["10.20.1.0/16"]),
                at="network.existing.cidrs[0]",
                mentions=("`10.20.1.0/16`", "`10.20.0.0/16`"),
            ),
            Bad(
                case=_existing(cidrs=["10.0.0.0/8"]),
                at="network.existing.cidrs[0]",
                mentions=("16,777,216 addresses", "/16 (65,536 addresses)"),
            ),
            Bad(
                case=_existing(cidrs=["10.20.0.0/16", "10.20.128.0/17"]),
                at="network.existing.cidrs[1]",
                mentions=("`10.20.128.0/17` and `10.20.0.0/16`",),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-026",
        good=(
            {},
            # one subnet may have several tasks
            _existing(gpu_subnet_id=_SUBNETS[1], cluster_subnet_ids=list(_SUBNETS[1:3])),
            {
                **_existing(system_subnet_ids=list(_SUBNETS[1:4])),
                "network.cluster_zone_ids": ["use1-az6", "use1-az4", "use1-az2"],
            },
        ),
        bad=(
            Bad(
                case=_existing(system_subnet_ids=list(_SUBNETS[1:4])),
                at="network.existing.system_subnet_ids",
                mentions=(
                    "3 in `system_subnet_ids`",
                    "2: one for each",
                    "`cluster_zone_ids: [use1-az6, use1-az4]`",
                ),
            ),
            Bad(
                case=_existing(cluster_subnet_ids=[_SUBNETS[4], _SUBNETS[4]]),
                at="network.existing.cluster_subnet_ids[1]",
                mentions=(f"`{_SUBNETS[4]}`",),
            ),
        ),
    ),
    Example(
        rule="DPD-NET-027",
        good=({"network.cidr": "10.0.0.0/16"}, _existing(), {**_existing(), "network.egress": "closed"}),
        bad=tuple(
            Bad(
                case={**_existing(), f"network.{key}": given},
                at=f"network.{key}",
                mentions=(f"`{key}: {given}`", "`existing.vpc_id: vpc-0123456789abcdef0`"),
            )
            for key, given in {
                "cidr": "10.0.0.0/16",
                "gpu_cidr": "10.2.0.0/16",
                "flow_log_retention_days": 30,
            }.items()
        ),
    ),
    Example(
        rule="DPD-NET-028",
        good=(
            _existing(),
            {**_existing(endpoint_services=["ecr.api", "sts"]), "network.interface_endpoints": True},
            {
                **_existing(load_balancer_subnet_ids=list(_SUBNETS[3:5])),
                "routing.load_balancer": {"scheme": "internal"},
            },
        ),
        bad=(
            Bad(
                case=_existing(load_balancer_subnet_ids=list(_SUBNETS[3:5])),
                at="network.existing.load_balancer_subnet_ids",
                mentions=("`routing.load_balancer`",),
            ),
            # a closed network of one's own has endpoints without being asked, a VPC of somebody else does not
            Bad(
                case={**_existing(endpoint_services=["sts"]), "network.egress": "closed"},
                at="network.existing.endpoint_services",
                mentions=("`network.interface_endpoints: true`",),
            ),
            Bad(
                case={**_existing(endpoint_services=["ecr-api"]), "network.interface_endpoints": True},
                at="network.existing.endpoint_services[0]",
                mentions=("`ecr-api`", "did you mean `ecr.api`", "`secretsmanager`"),
            ),
        ),
    ),
)
