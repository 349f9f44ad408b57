"""Cases of the rules about EKS."""

import json
from typing import Any

from tests.unit.rules.example import Bad, Example

_EXISTING = {"eks_name": "shared", "hyperpod_name": "shared"}
_PUBLIC = "cluster.public_access_cidrs"
_NODES = "cluster.system_nodes"
_LEAN_PLATFORM = {"platform.scraping": "none", "platform.external_secrets": False}
"""Six pods on every system node, 23 beside them."""
_PINNED = (
    "vpc-cni",
    "kube-proxy",
    "eks-pod-identity-agent",
    "coredns",
    "cert-manager",
    "metrics-server",
    "aws-mountpoint-s3-csi-driver",
    "aws-fsx-csi-driver",
    "amazon-sagemaker-hyperpod-inference",
)
_ROLE = "arn:aws:iam::111122223333:role/Admin"
_LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")


def _cluster(**given: Any) -> dict[str, Any]:
    return {"Resources": {"Cluster": {"Type": "AWS::EKS::Cluster", "Properties": given}}}


def _logging(*types: str) -> dict[str, Any]:
    return {"ClusterLogging": {"EnabledTypes": [{"Type": kind} for kind in types]}}


def _addon(name: str, **given: Any) -> dict[str, Any]:
    return {"Type": "AWS::EKS::Addon", "Properties": {"AddonName": name, **given}}


def _with(template: dict[str, Any], **resources: Any) -> dict[str, Any]:
    return {"Resources": {**template["Resources"], **resources}}


def _node_group(**given: Any) -> dict[str, Any]:
    return {"Type": "AWS::EKS::Nodegroup", "Properties": {"ScalingConfig": {"DesiredSize": 2}, **given}}


def _only(resource: dict[str, Any]) -> dict[str, Any]:
    return {"Resources": {"It": resource}}


def _entry(principal: object, **given: Any) -> dict[str, Any]:
    return {"Type": "AWS::EKS::AccessEntry", "Properties": {"PrincipalArn": principal, **given}}


def _ingress(group: object, source: object, protocol: str = "-1") -> dict[str, Any]:
    given = {"GroupId": group, "SourceSecurityGroupId": source, "IpProtocol": protocol}
    return {"Type": "AWS::EC2::SecurityGroupIngress", "Properties": given}


_CLUSTER_GROUP = {"Fn::GetAtt": ["Cluster", "ClusterSecurityGroupId"]}
_EFA_GROUP = {"Fn::ImportValue": "network:EfaGroup"}
_CNI = _addon("vpc-cni", AddonVersion="v1.22.4-eksbuild.3")
_CHART = "Custom::AWSCDK-EKS-HelmChart"


def _inference(key: str, value: object, name: str, resource: dict[str, Any]) -> dict[str, Any]:
    """Return a template with the inference add-on, and what its configuration refers to."""
    configuration = {"Fn::Join": ["", [f'{{"alb":{{}},"{key}":"', value, '"}']]}
    addon = _addon("amazon-sagemaker-hyperpod-inference", ConfigurationValues=configuration)
    return {"Resources": {"It": addon, name: resource}}


def _operator_role(**given: Any) -> dict[str, Any]:
    role = {"Type": "AWS::IAM::Role", "Properties": given}
    return _inference("executionRoleArn", {"Fn::GetAtt": ["Role", "Arn"]}, "Role", role)


def _certificates(**given: Any) -> dict[str, Any]:
    return _inference(
        "tlsCertificateS3Bucket",
        {"Ref": "Bucket"},
        "Bucket",
        {"Type": "AWS::S3::Bucket", "Properties": given},
    )


def _literally(key: str, value: str) -> dict[str, Any]:
    configuration = json.dumps({key: value})
    return _only(_addon("amazon-sagemaker-hyperpod-inference", ConfigurationValues=configuration))


def _after_a_reference(value: object) -> dict[str, Any]:
    """Return a template with the inference add-on whose configuration refers to something else before the role."""
    parts = ['{"region":"', {"Ref": "AWS::Region"}, '","executionRoleArn":"', value, '"}']
    return _only(_addon("amazon-sagemaker-hyperpod-inference", ConfigurationValues={"Fn::Join": ["", parts]}))


_WITH_PREFIX = "arn:aws:iam::111122223333:role/SageMakerHyperPodInferenceRole"
_ROLE_OF_OPERATOR = "Resources.It.Properties.ConfigurationValues.executionRoleArn"
_TLS = "Resources.It.Properties.ConfigurationValues.tlsCertificateS3Bucket"

EXAMPLES = (
    Example(
        rule="DPD-EKS-001",
        good=(
            {_PUBLIC: ["198.51.100.0/24"]},
            {"cluster.endpoint_access": "private"},
            {"cluster.existing": _EXISTING},
        ),
        bad=(
            Bad(case={}, at=f"{_PUBLIC}[0]", mentions=("`0.0.0.0/0`",)),
            Bad(case={_PUBLIC: ["198.51.100.0/24", "0.0.0.0/0"]}, at=f"{_PUBLIC}[1]"),
        ),
    ),
    Example(
        rule="DPD-EKS-002",
        good=(_cluster(Logging=_logging(*_LOG_TYPES)),),
        bad=(
            Bad(case=_cluster(), at="Resources.Cluster.Properties.Logging", mentions=("none", "`audit`")),
            Bad(
                case=_cluster(Logging=_logging(*_LOG_TYPES[:4])),
                at="Resources.Cluster.Properties.Logging",
                mentions=("enable `scheduler`",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-003",
        good=(
            _cluster(AccessConfig={"AuthenticationMode": "API"}),
            _cluster(AccessConfig={"AuthenticationMode": "API_AND_CONFIG_MAP"}),
        ),
        bad=(
            Bad(
                case=_cluster(AccessConfig={"AuthenticationMode": "CONFIG_MAP"}),
                at="Resources.Cluster.Properties.AccessConfig.AuthenticationMode",
                mentions=("CONFIG_MAP",),
            ),
            Bad(case=_cluster(), at="Resources.Cluster.Properties.AccessConfig.AuthenticationMode"),
        ),
    ),
    Example(
        rule="DPD-EKS-004",
        good=(
            _with(_cluster(), Cni=_CNI),
            _with(_cluster(), Cni=_addon("vpc-cni", AddonVersion="v1.18.3-eksbuild.10")),
            _with(
                _cluster(),
                Cni=_CNI,
                Chart={"Type": _CHART, "Properties": {"Chart": "aws-efa-k8s-device-plugin"}},
            ),
        ),
        bad=(
            Bad(case=_cluster(), at="Resources.Cluster", mentions=("vpc-cni",)),
            Bad(
                case=_with(_cluster(), Cni=_addon("vpc-cni", AddonVersion="v1.18.2-eksbuild.9")),
                at="Resources.Cluster",
                mentions=("v1.18.2-eksbuild.9", "v1.18.3"),
            ),
            Bad(
                case=_with(_cluster(), Cni=_CNI, Chart={"Type": _CHART, "Properties": {"Chart": "cilium"}}),
                at="Resources.Chart",
                mentions=("`cilium`",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-005",
        good=(_with(_cluster(), Nodes=_node_group(InstanceTypes=["m6i.xlarge"])), {"Resources": {}}),
        bad=(
            Bad(case=_cluster(), at="Resources.Cluster"),
            Bad(
                case=_with(_cluster(), Nodes=_node_group(InstanceTypes=["g6.xlarge"])), at="Resources.Cluster"
            ),
            Bad(
                case=_with(
                    _cluster(),
                    Nodes=_node_group(InstanceTypes=["m6i.xlarge"], ScalingConfig={"DesiredSize": 0}),
                ),
                at="Resources.Cluster",
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-006",
        good=({}, {"cluster.kubernetes_version": "1.34"}),
        bad=(
            Bad(
                case={"cluster.kubernetes_version": "1.36"},
                at="cluster.kubernetes_version",
                mentions=("1.36", '"1.35"', "1.30"),
            ),
            Bad(case={"cluster.kubernetes_version": "v1.35"}, at="cluster.kubernetes_version"),
        ),
    ),
    # what today is comes from test_dates.py
    Example(
        rule="DPD-EKS-007",
        good=({"cluster.kubernetes_version": "1.36"},),
        bad=(
            Bad(
                case={"cluster.kubernetes_version": "1.30"},
                at="cluster.kubernetes_version",
                mentions=("2026-07-23", '"1.35"'),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-008",
        # in extended support neither before nor after it
        good=({"cluster.kubernetes_version": "1.30"},),
        bad=(
            Bad(
                case={"cluster.kubernetes_version": "1.33"},
                at="cluster.kubernetes_version",
                mentions=("2026-07-29",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-009",
        good=({"cluster.addon_versions": {"coredns": "v1.13.2-eksbuild.21"}},),
        bad=(
            Bad(
                case={"cluster.addon_versions": {"core-dns": "v1.13.2-eksbuild.21"}},
                at="cluster.addon_versions.core-dns",
                mentions=("did you mean `coredns`?",),
            ),
            Bad(
                case={"cluster.addon_versions": {"aws-ebs-csi-driver": "v1.40.0-eksbuild.1"}},
                at="cluster.addon_versions.aws-ebs-csi-driver",
            ),
            Bad(
                case={"cluster.addon_versions": {"velero": "v1.0.0-eksbuild.1"}},
                at="cluster.addon_versions.velero",
                mentions=("`velero`", "coredns", "remove it"),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-010",
        good=(
            {"cluster.addon_versions": {"vpc-cni": "v1.18.3-eksbuild.1"}},
            # build 10 is newer than build 2
            {"cluster.addon_versions": {"cert-manager": "v1.18.2-eksbuild.10"}},
            {"platform.inference_operator.version": "v1.3.0-eksbuild.1"},
            {"platform.inference_operator": None},
            # there is no oldest version of it
            {"cluster.addon_versions": {"coredns": "v1.0.0-eksbuild.1"}},
            # DPD-EKS-009 says this one
            {"cluster.addon_versions": {"core-dns": "v1.13.2-eksbuild.21"}},
        ),
        bad=(
            Bad(
                case={"cluster.addon_versions": {"vpc-cni": "v1.18.2-eksbuild.1"}},
                at="cluster.addon_versions.vpc-cni",
                mentions=("v1.18.2-eksbuild.1", "v1.18.3-eksbuild.1"),
            ),
            Bad(
                case={"cluster.addon_versions": {"cert-manager": "v1.18.2-eksbuild.1"}},
                at="cluster.addon_versions.cert-manager",
            ),
            Bad(
                case={"cluster.addon_versions": {"coredns": "latest"}},
                at="cluster.addon_versions.coredns",
                mentions=("`latest`", "`coredns`"),
            ),
            Bad(
                case={"cluster.addon_versions": {"cert-manager": "latest"}},
                at="cluster.addon_versions.cert-manager",
                mentions=("not a version", "`latest`"),
            ),
            Bad(
                case={"platform.inference_operator.version": "v1.2.0-eksbuild.1"},
                at="platform.inference_operator.version",
                mentions=("v1.3.0-eksbuild.1",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-011",
        good=(
            {},
            {"cluster.kubernetes_version": "1.36"},
            {
                "cluster.kubernetes_version": "1.31",
                "cluster.addon_versions": dict.fromkeys(_PINNED, "v9.0.0-eksbuild.1"),
            },
        ),
        bad=(
            Bad(
                case={"cluster.kubernetes_version": "1.31"},
                at="cluster.kubernetes_version",
                mentions=("`vpc-cni`, `kube-proxy`", "`cluster.addon_versions`", "1.32"),
            ),
            Bad(
                case={
                    "cluster.kubernetes_version": "1.31",
                    "cluster.addon_versions": dict.fromkeys(_PINNED[:-1], "v9.0.0-eksbuild.1"),
                },
                at="cluster.kubernetes_version",
                mentions=("for example of `amazon-sagemaker-hyperpod-inference`",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-012",
        good=({}, {f"{_NODES}.instance_type": "m7i.2xlarge"}, {f"{_NODES}.instance_type": "g6.xlarge"}),
        bad=tuple(
            Bad(case={f"{_NODES}.instance_type": name}, at=f"{_NODES}.instance_type", mentions=(name,))
            for name in ("m7g.xlarge", "c6gn.xlarge", "t4g.large", "a1.xlarge", "r7gd.large", "im4gn.xlarge")
        ),
    ),
    Example(
        rule="DPD-EKS-013",
        good=(
            {},
            {f"{_NODES}.instance_type": "r6a.4xlarge"},
            {f"{_NODES}.instance_type": "t3.xlarge"},
            # DPD-EKS-012 says this one
            {f"{_NODES}.instance_type": "m7g.xlarge"},
        ),
        bad=tuple(
            Bad(case={f"{_NODES}.instance_type": name}, at=f"{_NODES}.instance_type", mentions=(name, "m6i"))
            for name in ("g6.xlarge", "ml.m5.xlarge", "m6i.xxlarge", "m6i")
        ),
    ),
    Example(
        rule="DPD-EKS-014",
        good=(
            {},
            {f"{_NODES}.instance_type": "m6i.large", f"{_NODES}.count": 3},
            # 1 × (29 − 6) = 23 are just enough
            {**_LEAN_PLATFORM, f"{_NODES}.instance_type": "m6i.large"},
            # DPD-EKS-013 says this one
            {f"{_NODES}.instance_type": "m6i"},
        ),
        bad=(
            # 1 × (29 − 6) = 23 < 27
            Bad(
                case={f"{_NODES}.instance_type": "m6i.large"},
                at=_NODES,
                mentions=("29 pods each", "1 × (29 − 6 on every node) = 23", "27 pods"),
            ),
            Bad(
                case={
                    **_LEAN_PLATFORM,
                    "platform.scraping": "collector",
                    f"{_NODES}.instance_type": "m6i.large",
                },
                at=_NODES,
                mentions=("24 pods",),
            ),
            # the agent of the collector takes the place of the add-on's node exporter
            Bad(
                case={"platform.observability_addon": False, f"{_NODES}.instance_type": "m6i.large"},
                at=_NODES,
                mentions=("1 × (29 − 6 on every node) = 23", "24 pods"),
            ),
            Bad(
                case={
                    **_LEAN_PLATFORM,
                    "platform.inference_operator": None,
                    "platform.observability_addon": False,
                    f"{_NODES}.instance_type": "t3.small",
                },
                at=_NODES,
                mentions=("1 × (11 − 5 on every node) = 6", "14 pods"),
            ),
            Bad(
                case={f"{_NODES}.instance_type": "t3.medium", f"{_NODES}.count": 3},
                at=_NODES,
                mentions=("= 22",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-015",
        good=({}, {f"{_NODES}.count": 4}),
        bad=(
            Bad(
                case={f"{_NODES}.count": 5},
                at=f"{_NODES}.maximum",
                mentions=("`count: 5`", "`maximum: 4`", "6"),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-016",
        good=(
            {"cluster.administrators": [_ROLE, "arn:aws:iam::111122223333:user/anna"]},
            {"cluster.administrators": ["arn:aws-us-gov:iam::111122223333:role/path/to/Admin"]},
        ),
        bad=(
            Bad(
                case={"cluster.administrators": [_ROLE, _ROLE]},
                at="cluster.administrators[1]",
                mentions=("twice",),
            ),
            Bad(
                case={"cluster.administrators": ["arn:aws:sts::111122223333:assumed-role/Admin/anna"]},
                at="cluster.administrators[0]",
                mentions=("not its session",),
            ),
            Bad(
                case={"cluster.administrators": ["arn:aws:iam::111122223333:root"]},
                at="cluster.administrators[0]",
            ),
            Bad(
                case={"cluster.administrators": ["Admin"]},
                at="cluster.administrators[0]",
                mentions=("`Admin`",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-017",
        good=({}, {_PUBLIC: ["198.51.100.7/32"] * 40}, {"cluster.endpoint_access": "private"}),
        bad=(
            Bad(case={_PUBLIC: []}, at=_PUBLIC, mentions=("1 to 40",)),
            Bad(case={_PUBLIC: ["198.51.100.7/32"] * 41}, at=_PUBLIC, mentions=("41",)),
            Bad(case={_PUBLIC: ["10.0.0.0/8"]}, at=f"{_PUBLIC}[0]", mentions=("private range",)),
            Bad(case={_PUBLIC: ["198.51.100.7"]}, at=f"{_PUBLIC}[0]", mentions=("no prefix length",)),
            Bad(case={_PUBLIC: ["198.51.100.7/24"]}, at=f"{_PUBLIC}[0]", mentions=("198.51.100.0/24",)),
            Bad(
                case={"cluster.endpoint_access": "private", _PUBLIC: ["198.51.100.7/32"]},
                at=_PUBLIC,
                mentions=("`endpoint_access: private`",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-018",
        good=({}, {"cluster.endpoint_access": "private", "cluster.existing": _EXISTING}),
        bad=(Bad(case={"cluster.endpoint_access": "private"}, at="cluster.endpoint_access"),),
    ),
    Example(
        rule="DPD-EKS-019",
        good=(
            {},
            {
                "cluster.dependencies_chart": {
                    "source": "s3",
                    "s3_uri": "s3://charts/hyperpod.tgz",
                    "sha256": "0a" * 32,
                }
            },
        ),
        bad=(
            Bad(
                case={"cluster.dependencies_chart": {"source": "s3", "sha256": "0a" * 32}},
                at="cluster.dependencies_chart.s3_uri",
                mentions=("no `s3_uri`",),
            ),
            Bad(
                case={
                    "cluster.dependencies_chart": {
                        "source": "s3",
                        "s3_uri": "s3://charts/",
                        "sha256": "0a" * 32,
                    }
                },
                at="cluster.dependencies_chart.s3_uri",
                mentions=("s3://charts/",),
            ),
            Bad(
                case={
                    "cluster.dependencies_chart": {
                        "source": "s3",
                        "s3_uri": "s3://charts/x",
                        "sha256": "0G" * 32,
                    }
                },
                at="cluster.dependencies_chart.sha256",
                mentions=("64 hexadecimal digits",),
            ),
            Bad(
                case={"cluster.dependencies_chart": {"source": "s3", "s3_uri": "s3://charts/x"}},
                at="cluster.dependencies_chart.sha256",
                mentions=("no `sha256`",),
            ),
            Bad(
                case={"cluster.dependencies_chart": {"sha256": "0a" * 32}},
                at="cluster.dependencies_chart.sha256",
                mentions=("`source: git`",),
            ),
            Bad(
                case={"cluster.dependencies_chart": {"s3_uri": "s3://charts/x"}},
                at="cluster.dependencies_chart.s3_uri",
                mentions=("`source: git`",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-020",
        good=(_cluster(EncryptionConfig=[{"Provider": {"KeyArn": "k"}, "Resources": ["secrets"]}]),),
        bad=(
            Bad(case=_cluster(), at="Resources.Cluster.Properties.EncryptionConfig"),
            Bad(
                case=_cluster(EncryptionConfig=[{"Resources": ["secrets"]}]),
                at="Resources.Cluster.Properties.EncryptionConfig",
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-021",
        good=(_only(_CNI), _only(_addon("amazon-sagemaker-hyperpod-observability"))),
        bad=(
            Bad(
                case=_only(_addon("coredns")),
                at="Resources.It.Properties.AddonVersion",
                mentions=("`coredns`",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-022",
        good=(_only(_addon("coredns", ResolveConflicts="OVERWRITE")), _only(_addon("cert-manager"))),
        bad=(
            Bad(
                case=_only(_addon("coredns")),
                at="Resources.It.Properties.ResolveConflicts",
                mentions=("NONE",),
            ),
            Bad(
                case=_only(_addon("kube-proxy", ResolveConflicts="PRESERVE")),
                at="Resources.It.Properties.ResolveConflicts",
                mentions=("PRESERVE",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-023",
        good=(_only(_CNI),),
        bad=(
            Bad(
                case=_only(_addon("aws-fsx-csi-driver", PodIdentityAssociations=[{"RoleArn": "r"}])),
                at="Resources.It.Properties.PodIdentityAssociations",
                mentions=("aws-fsx-csi-driver",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-024",
        good=(_cluster(ComputeConfig={"Enabled": False}), _cluster()),
        bad=(
            Bad(
                case=_cluster(ComputeConfig={"Enabled": True}),
                at="Resources.Cluster.Properties.ComputeConfig.Enabled",
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-025",
        good=(
            {"Resources": {"A": _entry("a"), "B": _entry({"Fn::GetAtt": ["Role", "Arn"]})}},
            {"Resources": {"A": _entry("a", Type="HYPERPOD_LINUX")}},
            {"Resources": {"A": _entry("a", Type="STANDARD", AccessPolicies=[])}},
        ),
        bad=(
            Bad(
                case={"Resources": {"A": _entry({"Ref": "R"}), "B": _entry({"Ref": "R"})}},
                at="Resources.B.Properties.PrincipalArn",
                mentions=("`A` and `B`",),
            ),
            Bad(
                case={"Resources": {"A": _entry("a", Type="HYPERPOD_LINUX", AccessPolicies=[])}},
                at="Resources.A.Properties.AccessPolicies",
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-026",
        good=(
            {"Resources": {"It": {**_addon("coredns"), "DependsOn": ["Nodes"]}, "Nodes": _node_group()}},
            # through something else that waits for the nodes
            {
                "Resources": {
                    "It": {**_addon("coredns"), "DependsOn": ["Ready"]},
                    "Ready": {"Type": "AWS::CloudFormation::WaitConditionHandle", "DependsOn": "Nodes"},
                    "Nodes": _node_group(),
                }
            },
        ),
        bad=(
            Bad(
                case={"Resources": {"It": _addon("coredns"), "Nodes": _node_group()}},
                at="Resources.It.DependsOn",
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-027",
        good=(_only(_node_group(AmiType="AL2023_x86_64_STANDARD", InstanceTypes=["m6i.xlarge"])),),
        bad=(
            Bad(case=_only(_node_group(AmiType="AL2023_ARM_64_STANDARD")), at="Resources.It.Properties"),
            Bad(
                case=_only(_node_group(InstanceTypes=["m7g.large"])),
                at="Resources.It.Properties",
                mentions=("m7g",),
            ),
            Bad(
                case=_only(_node_group(RemoteAccess={"Ec2SshKey": "k"})),
                at="Resources.It.Properties.RemoteAccess",
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-028",
        good=(
            _cluster(ResourcesVpcConfig={"EndpointPrivateAccess": True, "EndpointPublicAccess": False}),
            _cluster(
                ResourcesVpcConfig={
                    "EndpointPrivateAccess": True,
                    "EndpointPublicAccess": True,
                    "PublicAccessCidrs": ["0.0.0.0/0"],
                }
            ),
        ),
        bad=(
            Bad(
                case=_cluster(ResourcesVpcConfig={"EndpointPublicAccess": False}),
                at="Resources.Cluster.Properties.ResourcesVpcConfig.EndpointPrivateAccess",
                mentions=("absent",),
            ),
            Bad(
                case=_cluster(ResourcesVpcConfig={"EndpointPrivateAccess": True}),
                at="Resources.Cluster.Properties.ResourcesVpcConfig.PublicAccessCidrs",
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-033",
        # m6i.xlarge: 4 − 0.06 − 0.01 − 2 × 0.005 = 3.92 CPUs, less 0.5 for the node's own pods
        good=(
            {},
            {"routing.cpu": 3.42},
            {"routing.memory_gib": 13},
            # DPD-EKS-013 says this one
            {f"{_NODES}.instance_type": "m6i"},
        ),
        bad=(
            Bad(
                case={"routing.cpu": 4.0},
                at="routing.cpu",
                mentions=("`routing.cpu: 4`", "3.42 CPUs", "m6i.xlarge"),
            ),
            Bad(
                case={"routing.memory_gib": 14},
                at="routing.memory_gib",
                mentions=("`routing.memory_gib: 14`", "13.39 GiB"),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-034",
        good=(
            {},
            {"cluster.existing": _EXISTING},
            {"cluster.existing": {**_EXISTING, "parameter_prefix": "/dpd/shared"}},
        ),
        bad=(
            Bad(
                case={"cluster.existing": {"eks_name": "my cluster", "hyperpod_name": "shared"}},
                at="cluster.existing.eks_name",
                mentions=("`my cluster`",),
            ),
            Bad(
                case={"cluster.existing": {"eks_name": "shared", "hyperpod_name": "x_y"}},
                at="cluster.existing.hyperpod_name",
            ),
            Bad(
                case={"cluster.existing": {**_EXISTING, "parameter_prefix": "dpd/"}},
                at="cluster.existing.parameter_prefix",
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-035",
        good=(
            _with(
                _cluster(), In=_ingress(_CLUSTER_GROUP, _EFA_GROUP), Out=_ingress(_EFA_GROUP, _CLUSTER_GROUP)
            ),
        ),
        bad=(
            Bad(
                case=_with(_cluster(), In=_ingress(_CLUSTER_GROUP, _EFA_GROUP)),
                at="Resources.Cluster",
                mentions=("out of",),
            ),
            # another cluster's group
            Bad(
                case=_with(
                    _cluster(),
                    In=_ingress(_CLUSTER_GROUP, _EFA_GROUP),
                    Out=_ingress(_EFA_GROUP, {"Fn::GetAtt": ["Other", "ClusterSecurityGroupId"]}),
                ),
                at="Resources.Cluster",
                mentions=("out of",),
            ),
            # something else of the cluster than its group
            Bad(
                case=_with(
                    _cluster(),
                    In=_ingress(_CLUSTER_GROUP, _EFA_GROUP),
                    Out=_ingress(_EFA_GROUP, {"Fn::GetAtt": ["Cluster", "Arn"]}),
                ),
                at="Resources.Cluster",
                mentions=("out of",),
            ),
            Bad(
                case=_with(_cluster(), Out=_ingress(_EFA_GROUP, _CLUSTER_GROUP)),
                at="Resources.Cluster",
                mentions=("into",),
            ),
            Bad(
                case=_with(
                    _cluster(),
                    In=_ingress(_CLUSTER_GROUP, _EFA_GROUP, protocol="tcp"),
                    Out=_ingress(_EFA_GROUP, _CLUSTER_GROUP),
                ),
                at="Resources.Cluster",
                mentions=("into",),
            ),
        ),
    ),
    Example(
        rule="DPD-EKS-036",
        good=(
            _operator_role(RoleName="SageMakerHyperPodInference-mine"),
            _literally("executionRoleArn", _WITH_PREFIX),
            _after_a_reference(_WITH_PREFIX),
            _only(_CNI),
        ),
        bad=(
            Bad(case=_operator_role(RoleName="inference"), at=_ROLE_OF_OPERATOR, mentions=("`inference`",)),
            Bad(case=_operator_role(), at=_ROLE_OF_OPERATOR, mentions=("no explicit name",)),
            Bad(
                case=_literally("executionRoleArn", "arn:aws:iam::111122223333:role/mine"),
                at=_ROLE_OF_OPERATOR,
                mentions=("`mine`",),
            ),
            Bad(
                case=_after_a_reference("arn:aws:iam::111122223333:role/mine"),
                at=_ROLE_OF_OPERATOR,
                mentions=("`mine`",),
            ),
            Bad(
                case=_after_a_reference({"Fn::GetAtt": ["Role", "Arn"]}),
                at=_ROLE_OF_OPERATOR,
                mentions=("no explicit name",),
            ),
            Bad(case=_literally("alb", "no role"), at=_ROLE_OF_OPERATOR),
        ),
    ),
    Example(
        rule="DPD-EKS-037",
        good=(
            _certificates(BucketName="hyperpod-tls-mine"),
            _certificates(BucketName={"Fn::Join": ["", ["hyperpod-tls-dpd-", {"Ref": "AWS::AccountId"}]]}),
            _literally("tlsCertificateS3Bucket", "hyperpod-tls-theirs"),
        ),
        bad=(
            Bad(case=_certificates(BucketName="certificates"), at=_TLS, mentions=("`certificates`",)),
            Bad(case=_certificates(), at=_TLS, mentions=("no bucket with an explicit name",)),
            Bad(case=_literally("tlsCertificateS3Bucket", "tls"), at=_TLS, mentions=("`tls`",)),
        ),
    ),
)
