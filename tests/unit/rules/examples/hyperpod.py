"""Cases of the rules about the HyperPod cluster."""

from typing import Any

from tests.unit.rules.example import REMOVED, Bad, Example

_GROUPS = "hyperpod.instance_groups"
_PLAN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/p5-december"
_KEY = "arn:aws:kms:us-east-1:111122223333:key/00000000-0000-0000-0000-000000000000"
_TAINT = {"key": "example.com/team", "effect": "NoSchedule"}
_NO_CHECKS: dict[str, Any] = {f"{_GROUPS}.0.deep_health_checks": []}
_MONTHLY = "cron(0 20 L * ? *)"
_NIGHTS = {"stop_cron": "cron(0 20 ? * MON-FRI *)", "start_cron": "cron(0 7 ? * MON-FRI *)"}


def _plan(arn: str) -> dict[str, Any]:
    return {"type": "training-plan", "arn": arn}


def _template(*groups: dict[str, Any], **resources: Any) -> dict[str, Any]:
    named = [{"InstanceGroupName": "decode", **group} for group in groups]
    cluster = {"Type": "AWS::SageMaker::Cluster", "Properties": {"ClusterName": "c", "InstanceGroups": named}}
    return {"Resources": {"Cluster": {**cluster, "DependsOn": sorted(resources)}, **resources}}


def _waiting_for(template: dict[str, Any], *needed: str) -> dict[str, Any]:
    cluster = {**template["Resources"]["Cluster"], "DependsOn": list(needed)}
    return {"Resources": {**template["Resources"], "Cluster": cluster}}


def _bucket(name: object) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": name} if name else {}}


_SCRIPTS = {"LifeCycleConfig": {"SourceS3Uri": {"Fn::Join": ["", ["s3://", {"Ref": "Scripts"}, "/"]]}}}
_WITH_ROLE = {"ExecutionRole": {"Fn::GetAtt": ["Role", "Arn"]}}
_ROLE = {"Type": "AWS::IAM::Role", "Properties": {}}
_GROUP_RULE = {
    "Type": "AWS::EC2::SecurityGroupEgress",
    "Properties": {"GroupId": {"Fn::GetAtt": ["Efa", "GroupId"]}, "IpProtocol": "-1"},
}
_EFA = {"Type": "AWS::EC2::SecurityGroup", "Properties": {}}
_IN_EFA = {"OverrideVpcConfig": {"SecurityGroupIds": [{"Fn::GetAtt": ["Efa", "GroupId"]}]}}
_UPLOAD = {"Type": "Custom::CDKBucketDeployment", "Properties": {"DestinationBucketName": {"Ref": "Scripts"}}}


def _policy(
    action: object,
    resource: object,
    effect: str = "Allow",
    kind: str = "Policy",
    roles: tuple[str, ...] = ("Role",),
) -> dict[str, Any]:
    statement = {"Effect": effect, "Action": action, "Resource": resource}
    return {
        "Type": f"AWS::IAM::{kind}",
        "Properties": {
            "Roles": [{"Ref": role} for role in roles],
            "PolicyDocument": {"Statement": [statement]},
        },
    }


def _role_with(policy: dict[str, Any]) -> dict[str, Any]:
    return _template(_WITH_ROLE, Role=_ROLE, Policy=policy)


_COMPLETE = {"ThreadsPerCore": 2, "LifeCycleConfig": {}, "OverrideVpcConfig": {}}

EXAMPLES = (
    Example(
        rule="DPD-HP-001",
        good=(
            {},
            {f"{_GROUPS}.1.instance_type": "ml.p5en.48xlarge"},
            {f"{_GROUPS}.1.instance_type": "ml.p5e.48xlarge"},
        ),
        bad=(
            Bad(
                case={f"{_GROUPS}.0.instance_type": "p5.48xlarge"},
                at=f"{_GROUPS}[0].instance_type",
                mentions=("`prefill`", "p5.48xlarge", "`ml.p5.48xlarge`"),
            ),
            Bad(case={f"{_GROUPS}.1.instance_type": "ml.g6.48xlarge"}, at=f"{_GROUPS}[1].instance_type"),
            Bad(
                case={f"{_GROUPS}.1.instance_type": "h100"},
                at=f"{_GROUPS}[1].instance_type",
                mentions=("`instance_type: h100`", "choose one of these types"),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-002",
        good=({}, {f"{_GROUPS}.0.capacity": _plan(_PLAN)}),
        bad=(
            Bad(
                case={f"{_GROUPS}.0.placement_group": "pg", f"{_GROUPS}.0.capacity": _plan(_PLAN)},
                at=f"{_GROUPS}[0].placement_group",
                mentions=("together with a training plan", "`placement_group: pg`", _PLAN),
            ),
            Bad(
                case={f"{_GROUPS}.1.placement_group": "pg"},
                at=f"{_GROUPS}[1].placement_group",
                mentions=("`decode`", "cannot use"),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-003",
        good=({}, {f"{_GROUPS}.0.deep_health_checks": ["InstanceStress"]}),
        bad=(
            Bad(case={"hyperpod.node_recovery": "none"}, at="hyperpod.node_recovery"),
            Bad(case=_NO_CHECKS, at=f"{_GROUPS}[0].deep_health_checks", mentions=("`prefill`",)),
        ),
    ),
    Example(
        rule="DPD-HP-004",
        good=(
            _template(_SCRIPTS, Scripts=_bucket("sagemaker-llama")),
            _template(
                _SCRIPTS, Scripts=_bucket({"Fn::Join": ["", ["sagemaker-llama-", {"Ref": "AWS::Region"}]]})
            ),
            _template(
                _SCRIPTS, Scripts=_bucket({"Fn::Sub": "sagemaker-llama-${AWS::Region}"}), Logs=_bucket(None)
            ),
            _template(
                _SCRIPTS, Scripts=_bucket({"Fn::Sub": ["sagemaker-${Name}", {"Name": {"Ref": "Name"}}]})
            ),
        ),
        bad=(
            Bad(
                case=_template(_SCRIPTS, Scripts=_bucket("llama")),
                at="Resources.Scripts.Properties.BucketName",
                mentions=("`llama`", "sagemaker-"),
            ),
            Bad(
                case=_template(_SCRIPTS, Scripts=_bucket(None)),
                at="Resources.Scripts.Properties.BucketName",
                mentions=("no name",),
            ),
            Bad(
                case=_template(_SCRIPTS, Scripts=_bucket({"Fn::Join": ["", [{"Ref": "X"}, "sagemaker-"]]})),
                at="Resources.Scripts.Properties.BucketName",
            ),
            Bad(
                case=_template(
                    _SCRIPTS, Scripts=_bucket({"Fn::Sub": ["${Name}-sagemaker-", {"Name": "llama"}]})
                ),
                at="Resources.Scripts.Properties.BucketName",
            ),
            # nothing of its beginning is known
            Bad(
                case=_template(_SCRIPTS, Scripts=_bucket({"Ref": "Name"})),
                at="Resources.Scripts.Properties.BucketName",
            ),
        ),
    ),
    Example(
        rule="DPD-HP-005",
        good=({},),
        bad=(
            Bad(
                case={f"{_GROUPS}.1.name": "prefill"},
                at=f"{_GROUPS}[1].name",
                mentions=("`prefill`", "`instance_groups[0]`"),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-006",
        good=(
            {},
            {
                f"{_GROUPS}.2": {
                    "name": "c",
                    "instance_type": "ml.p5.48xlarge",
                    "count": 1,
                    "role": "colocated",
                }
            },
        ),
        bad=(
            Bad(
                case={f"{_GROUPS}.1.role": REMOVED}, at=f"{_GROUPS}[1]", mentions=("`decode`", "`colocated`")
            ),
        ),
    ),
    Example(
        rule="DPD-HP-007",
        good=({}, {f"{_GROUPS}.1.role": REMOVED}),
        bad=(
            Bad(case={f"{_GROUPS}.1.role": "prefill"}, at=_GROUPS, mentions=("for decode", "`role: decode`")),
            Bad(case={f"{_GROUPS}.0.role": "colocated"}, at=_GROUPS, mentions=("for prefill",)),
        ),
    ),
    Example(
        rule="DPD-HP-008",
        good=({f"{_GROUPS}.0.minimum": 1}, {f"{_GROUPS}.0.minimum": 0}),
        bad=(
            Bad(
                case={f"{_GROUPS}.0.minimum": 2},
                at=f"{_GROUPS}[0].minimum",
                mentions=("`minimum: 2`", "`count: 1`"),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-009",
        good=({f"{_GROUPS}.0.minimum": 1}, {"hyperpod.continuous_provisioning": False}),
        bad=(
            Bad(
                case={f"{_GROUPS}.0.minimum": 1, "hyperpod.continuous_provisioning": False},
                at=f"{_GROUPS}[0].minimum",
                mentions=("`continuous_provisioning: false`",),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-010",
        good=({}, {f"{_GROUPS}.0.taints": [_TAINT], **_NO_CHECKS}),
        bad=(
            Bad(
                case={f"{_GROUPS}.0.taints": [_TAINT]},
                at=f"{_GROUPS}[0].taints",
                mentions=("`example.com/team:NoSchedule`",),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-011",
        good=({f"{_GROUPS}.0.labels": {"team": "a", "example.com/cost-center": "", "k" * 63: "v" * 63}},),
        bad=(
            *(
                Bad(
                    case={f"{_GROUPS}.0.labels": {key: value}},
                    at=f"{_GROUPS}[0].labels.{key}",
                    mentions=(mention,),
                )
                for key, value, mention in (
                    ("kubernetes.io/role", "x", "`kubernetes.io` is reserved"),
                    ("node.kubernetes.io/x", "x", "`kubernetes.io` is reserved"),
                    ("k8s.io/x", "x", "`k8s.io` is reserved"),
                    ("sagemaker.amazonaws.com/x", "x", "reserved"),
                    ("k" * 64, "x", "63"),
                    ("team", "v" * 64, "63"),
                    ("team", "-x", "between letters or digits"),
                    ("te am", "x", "letters"),
                    ("Example.COM/team", "x", "DNS name"),
                )
            ),
            Bad(case={f"{_GROUPS}.0.labels": {f"k{n}": "" for n in range(51)}}, at=f"{_GROUPS}[0].labels"),
        ),
    ),
    Example(
        rule="DPD-HP-012",
        good=({f"{_GROUPS}.0.taints": [_TAINT, {**_TAINT, "effect": "NoExecute"}]},),
        bad=(
            Bad(
                case={f"{_GROUPS}.0.taints": [{**_TAINT, "key": "eks.amazonaws.com/x"}]},
                at=f"{_GROUPS}[0].taints[0]",
                mentions=("reserved",),
            ),
            Bad(
                case={f"{_GROUPS}.0.taints": [_TAINT, {**_TAINT, "value": "x"}]},
                at=f"{_GROUPS}[0].taints[1]",
                mentions=("twice",),
            ),
            Bad(
                case={f"{_GROUPS}.0.taints": [{**_TAINT, "key": f"k{n}"} for n in range(51)]},
                at=f"{_GROUPS}[0].taints",
                mentions=("51",),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-013",
        good=(
            {f"{_GROUPS}.0.name": "a" * 63, "hyperpod.cluster_name": "Cluster-1"},
            {f"{_GROUPS}.0.name": "a--b"},
            {f"{_GROUPS}.0.name": f"a{'-' * 61}b"},
        ),
        bad=(
            Bad(
                case={f"{_GROUPS}.0.name": "a" * 64},
                at=f"{_GROUPS}[0].name",
                mentions=("64 characters", "1 to 63"),
            ),
            Bad(
                case={f"{_GROUPS}.0.name": f"a{'-' * 62}b"},
                at=f"{_GROUPS}[0].name",
                mentions=("64 characters",),
            ),
            Bad(case={f"{_GROUPS}.0.name": "pre_fill"}, at=f"{_GROUPS}[0].name", mentions=("`pre_fill`",)),
            Bad(case={f"{_GROUPS}.0.name": "prefill-"}, at=f"{_GROUPS}[0].name"),
            Bad(case={f"{_GROUPS}.0.name": "-" * 100_000}, at=f"{_GROUPS}[0].name"),
            Bad(case={"hyperpod.cluster_name": "my cluster"}, at="hyperpod.cluster_name"),
        ),
    ),
    Example(
        rule="DPD-HP-014",
        good=(
            {f"{_GROUPS}.0.capacity": _plan(_PLAN)},
            {f"{_GROUPS}.0.capacity": _plan(_PLAN), "account": "111122223333"},
        ),
        bad=(
            Bad(
                case={f"{_GROUPS}.0.capacity": _plan(_PLAN.replace("us-east-1", "us-west-2"))},
                at=f"{_GROUPS}[0].capacity.arn",
                mentions=("us-west-2", "region us-east-1"),
            ),
            Bad(
                case={f"{_GROUPS}.0.capacity": _plan(_PLAN), "account": "999922223333"},
                at=f"{_GROUPS}[0].capacity.arn",
                mentions=("account 999922223333",),
            ),
            Bad(
                case={f"{_GROUPS}.1.capacity": _plan("p5-december")},
                at=f"{_GROUPS}[1].capacity.arn",
                mentions=("`p5-december`",),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-015",
        good=({}, {f"{_GROUPS}.0.capacity": {"type": "spot"}}),
        bad=(
            Bad(
                case={f"{_GROUPS}.1.capacity": {"type": "spot"}},
                at=f"{_GROUPS}[1].capacity",
                mentions=("`decode`", "600 s"),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-016",
        good=(
            _role_with(_policy(["ec2:DescribeSubnets", "ecr:GetAuthorizationToken"], "*")),
            _role_with(_policy("s3:GetObject", ["arn:aws:s3:::sagemaker-x/*"])),
            _role_with(_policy("s3:*", "*", effect="Deny")),
        ),
        bad=(
            Bad(
                case=_role_with(_policy("s3:*", "arn:aws:s3:::b")),
                at="Resources.Policy.Properties.PolicyDocument",
                mentions=("`s3:*`", "wildcard"),
            ),
            Bad(
                case=_role_with(_policy(["ec2:DescribeSubnets", "ec2:CreateTags"], "*")),
                at="Resources.Policy.Properties.PolicyDocument",
                mentions=("`ec2:CreateTags`", "every resource"),
            ),
            Bad(
                case=_template(
                    _WITH_ROLE,
                    Role={
                        "Type": "AWS::IAM::Role",
                        "Properties": {"Policies": [_policy("*", "*")["Properties"]]},
                    },
                ),
                at="Resources.Role.Properties.PolicyDocument",
                besides=("Resources.Role.Properties.PolicyDocument",),
                mentions=("wildcard", "every resource"),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-017",
        good=(
            _template(
                {**_WITH_ROLE, **_SCRIPTS, **_IN_EFA},
                Role=_ROLE,
                Policy=_policy("s3:GetObject", "x"),
                Scripts=_bucket("sagemaker-x"),
                Upload=_UPLOAD,
                Efa=_EFA,
                Rule=_GROUP_RULE,
            ),
        ),
        bad=(
            Bad(
                case=_waiting_for(_template(_WITH_ROLE, Role=_ROLE, Policy=_policy("s3:GetObject", "x"))),
                at="Resources.Cluster.DependsOn",
                mentions=("its role's policy", "`Policy`"),
            ),
            Bad(
                case=_waiting_for(
                    _template(
                        _WITH_ROLE,
                        Role=_ROLE,
                        Policy=_policy("s3:GetObject", "x", kind="ManagedPolicy", roles=("Other", "Role")),
                    )
                ),
                at="Resources.Cluster.DependsOn",
                mentions=("its role's policy", "`Policy`"),
            ),
            Bad(
                case=_waiting_for(_template(_IN_EFA, Efa=_EFA, Rule=_GROUP_RULE)),
                at="Resources.Cluster.DependsOn",
                mentions=("a rule of its security group",),
            ),
            Bad(
                case=_waiting_for(
                    _template(_SCRIPTS, Scripts=_bucket("sagemaker-x"), Upload=_UPLOAD), "Scripts"
                ),
                at="Resources.Cluster.DependsOn",
                mentions=("its lifecycle scripts", "`Upload`"),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-018",
        good=(_template(),),
        bad=(
            Bad(
                case={"Resources": {"Cluster": {"Type": "AWS::SageMaker::Cluster", "Properties": {}}}},
                at="Resources.Cluster.Properties.ClusterName",
            ),
        ),
    ),
    Example(
        rule="DPD-HP-019",
        good=(_template(_COMPLETE, _COMPLETE),),
        bad=tuple(
            Bad(
                case=_template(_COMPLETE, {name: value for name, value in _COMPLETE.items() if name != key}),
                at=f"Resources.Cluster.Properties.InstanceGroups.1.{key}",
                mentions=("`decode`",),
            )
            for key in _COMPLETE
        ),
    ),
    Example(
        rule="DPD-HP-020",
        good=(
            {},
            {"platform.nights_off": _NIGHTS, f"{_GROUPS}.0.minimum": 0},
            *(
                {"platform.nights_off": {**_NIGHTS, "stop_cron": text}}
                for text in (
                    "cron(0/15 20 1,15 * ? 2026-2030)",
                    "cron(30 18 LW jan-mar ? *)",
                    "cron(0 6 ? * 6#3 *)",
                    "cron(0 6 ? * fri *)",
                )
            ),
        ),
        bad=(
            *(
                Bad(
                    case={"platform.nights_off": {**_NIGHTS, "start_cron": text}},
                    at="platform.nights_off.start_cron",
                    mentions=(f"`{text}`", words),
                )
                for text, words in (
                    ("cron(0 20 * * * *)", "exactly one of day-of-month and day-of-week"),
                    ("cron(0 20 ? * ? *)", "exactly one of day-of-month and day-of-week"),
                    ("cron(60 20 ? * * *)", "its minutes is `60`"),
                    ("cron(0 24 ? * * *)", "its hours is `24`"),
                    ("cron(0 20 ? * MON-FOO *)", "its day-of-week is `MON-FOO`"),
                    ("cron(0/0 20 ? * * *)", "its minutes is `0/0`"),
                    ("cron(0 20 ? * * 20260)", "its year is `20260`"),
                )
            ),
            Bad(
                case={"platform.nights_off": {**_NIGHTS, "start_cron": _NIGHTS["stop_cron"].lower()}},
                at="platform.nights_off.start_cron",
                mentions=("at the same moment",),
            ),
            Bad(
                case={
                    "platform.nights_off": {
                        "stop_cron": "cron(0 7,20 ? * MON-FRI *)",
                        "start_cron": "cron(0 7 ? * FRI *)",
                    }
                },
                at="platform.nights_off.start_cron",
                mentions=("at the same moment", "`cron(0 7,20 ? * MON-FRI *)`"),
            ),
            Bad(
                case={"platform.nights_off": {"stop_cron": _MONTHLY, "start_cron": _MONTHLY}},
                at="platform.nights_off.start_cron",
                mentions=("at the same moment",),
            ),
            Bad(
                case={"platform.nights_off": {**_NIGHTS, "stop_cron": "0 20 * * *"}},
                at="platform.nights_off.stop_cron",
                mentions=("`0 20 * * *`", "cron("),
            ),
            Bad(
                case={"platform.nights_off": {**_NIGHTS, "time_zone": "Europe/Atlantis"}},
                at="platform.nights_off.time_zone",
                mentions=("Atlantis",),
            ),
            Bad(
                case={"platform.nights_off": {**_NIGHTS, "time_zone": "../../etc/passwd"}},
                at="platform.nights_off.time_zone",
            ),
            Bad(
                case={"platform.nights_off": _NIGHTS, f"{_GROUPS}.0.minimum": 1},
                at=f"{_GROUPS}[0].minimum",
                mentions=("`minimum: 1`",),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-027",
        good=(
            {f"{_GROUPS}.0.volumes_kms_key_arn": _KEY},
            {"hyperpod.continuous_provisioning": False},
        ),
        bad=(
            Bad(
                case={f"{_GROUPS}.1.volumes_kms_key_arn": _KEY, "hyperpod.continuous_provisioning": False},
                at=f"{_GROUPS}[1].volumes_kms_key_arn",
                mentions=("`decode`", "`continuous_provisioning: false`"),
            ),
        ),
    ),
    Example(
        rule="DPD-HP-026",
        good=(
            {"platform.nights_off": _NIGHTS},
            {"platform.nights_off": {**_NIGHTS, "warm_up_minutes": 13 * 60 - 1}},
            {"platform.nights_off": {**_NIGHTS, "stop_cron": _MONTHLY}, "platform.scraping": "none"},
            # DPD-HP-020 speaks
            {"platform.nights_off": {**_NIGHTS, "stop_cron": "every night"}},
            {"platform.nights_off": {**_NIGHTS, "stop_cron": "cron(0 7,20 ? * MON-FRI *)"}},
            {
                "platform.nights_off": {**_NIGHTS, "stop_cron": _MONTHLY},
                "cluster.existing": {"eks_name": "llama", "hyperpod_name": "shared"},
            },
        ),
        bad=(
            Bad(
                case={"platform.nights_off": {**_NIGHTS, "stop_cron": _MONTHLY}},
                at="platform.nights_off",
                mentions=("not the same every week", f"`{_MONTHLY}`"),
            ),
            Bad(
                case={"platform.nights_off": {**_NIGHTS, "start_cron": "cron(0 7 ? JUN-AUG MON-FRI *)"}},
                at="platform.nights_off",
            ),
            Bad(
                case={"platform.nights_off": {**_NIGHTS, "warm_up_minutes": 13 * 60}},
                at="platform.nights_off.warm_up_minutes",
                mentions=("`780`", "780 minutes"),
            ),
            Bad(
                case={"platform.nights_off": _NIGHTS, "platform.scraping": "prometheus-operator"},
                at="platform.nights_off",
                mentions=("`scraping: prometheus-operator`",),
            ),
        ),
    ),
)
