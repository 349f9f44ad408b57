"""Template rules find the violation in the templates that this project really synthesizes, not only in examples."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from hyperpod_dpd.rules import Subject, check_template
from hyperpod_dpd.rules.registry import rules_about
from tests.support.synth import deployments, ready_synthesized, synthesize

Resources = dict[str, Any]


def _of(resources: Resources, *types: str) -> list[Any]:
    found = [resource for resource in resources.values() if resource["Type"] in types]
    assert found, f"the templates have no {types}"
    return found


def _without(*types: str) -> Callable[[Resources], None]:
    def change(resources: Resources) -> None:
        names = [name for name, resource in resources.items() if resource["Type"] in types]
        assert names, f"the templates have no {types}"
        for name in names:
            del resources[name]

    return change


def _property(kind: str, *path: str, to: Any = None) -> Callable[[Resources], None]:
    """Set a property of every resource of `kind`, or remove it."""

    def change(resources: Resources) -> None:
        for resource in _of(resources, kind):
            place = resource["Properties"]
            for key in path[:-1]:
                place = place.setdefault(key, {})
            if to is None:
                place.pop(path[-1], None)
            else:
                place[path[-1]] = to

    return change


def _attribute(kind: str, key: str, to: Any = None) -> Callable[[Resources], None]:
    def change(resources: Resources) -> None:
        for resource in _of(resources, kind):
            if to is None:
                resource.pop(key, None)
            else:
                resource[key] = to

    return change


def _self_egress_gone(resources: Resources) -> None:
    for name, rule in list(resources.items()):
        if (
            rule["Type"] == "AWS::EC2::SecurityGroupEgress"
            and "DestinationSecurityGroupId" in rule["Properties"]
        ):
            del resources[name]


def _addon_property(name: str, key: str, to: Any) -> Callable[[Resources], None]:
    def change(resources: Resources) -> None:
        (addon,) = [
            addon for addon in _of(resources, "AWS::EKS::Addon") if addon["Properties"]["AddonName"] == name
        ]
        addon["Properties"].pop(key, None)
        if to is not None:
            addon["Properties"][key] = to

    return change


def _coredns_alone(resources: Resources) -> None:
    for addon in _of(resources, "AWS::EKS::Addon"):
        if addon["Properties"]["AddonName"] == "coredns":
            addon.pop("DependsOn", None)


def _second_entry(resources: Resources) -> None:
    entry = copy.deepcopy(_of(resources, "AWS::EKS::AccessEntry")[0])
    resources["SecondEntry"] = entry


def _group_without(key: str) -> Callable[[Resources], None]:
    def change(resources: Resources) -> None:
        (cluster,) = _of(resources, "AWS::SageMaker::Cluster")
        del cluster["Properties"]["InstanceGroups"][0][key]

    return change


def _everything_allowed(resources: Resources) -> None:
    for policy in _of(resources, "AWS::IAM::Policy"):
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            statement["Action"] = "*"


def _plain_text_allowed(resources: Resources) -> None:
    for policy in _of(resources, "AWS::S3::BucketPolicy"):
        statements = policy["Properties"]["PolicyDocument"]["Statement"]
        statements[:] = [entry for entry in statements if entry["Effect"] == "Allow"]


MUTATIONS: dict[str, tuple[str, Callable[[Resources], None]]] = {
    "DPD-NET-001": ("network", _self_egress_gone),
    "DPD-NET-013": ("network", _without("AWS::EC2::VPCEndpoint")),
    "DPD-NET-014": ("network", _property("AWS::EC2::Subnet", "AvailabilityZoneId")),
    "DPD-NET-015": ("network", _attribute("AWS::EC2::Subnet", "DependsOn")),
    "DPD-NET-016": ("network", _without("AWS::EC2::FlowLog")),
    "DPD-EKS-002": ("cluster", _property("AWS::EKS::Cluster", "Logging")),
    "DPD-EKS-003": (
        "cluster",
        _property("AWS::EKS::Cluster", "AccessConfig", "AuthenticationMode", to="CONFIG_MAP"),
    ),
    "DPD-EKS-004": ("cluster", _addon_property("vpc-cni", "AddonVersion", "v1.18.2-eksbuild.1")),
    "DPD-EKS-005": ("cluster", _without("AWS::EKS::Nodegroup")),
    "DPD-EKS-020": ("cluster", _property("AWS::EKS::Cluster", "EncryptionConfig")),
    "DPD-EKS-021": ("cluster", _addon_property("kube-proxy", "AddonVersion", None)),
    "DPD-EKS-022": ("cluster", _addon_property("kube-proxy", "ResolveConflicts", None)),
    "DPD-EKS-023": ("cluster", _addon_property("coredns", "PodIdentityAssociations", [{"RoleArn": "r"}])),
    "DPD-EKS-024": ("cluster", _property("AWS::EKS::Cluster", "ComputeConfig", "Enabled", to=True)),
    "DPD-EKS-025": ("hyperpod", _second_entry),
    "DPD-EKS-026": ("cluster", _coredns_alone),
    "DPD-EKS-027": ("cluster", _property("AWS::EKS::Nodegroup", "InstanceTypes", to=["m7g.xlarge"])),
    "DPD-EKS-028": (
        "cluster",
        _property("AWS::EKS::Cluster", "ResourcesVpcConfig", "EndpointPrivateAccess", to=False),
    ),
    "DPD-EKS-036": ("platform", _property("AWS::IAM::Role", "RoleName")),
    "DPD-EKS-037": ("platform", _property("AWS::S3::Bucket", "BucketName")),
    "DPD-EKS-035": ("cluster", _without("AWS::EC2::SecurityGroupIngress")),
    "DPD-HP-004": ("hyperpod", _property("AWS::S3::Bucket", "BucketName")),
    "DPD-HP-016": ("hyperpod", _everything_allowed),
    "DPD-HP-017": ("hyperpod", _attribute("AWS::SageMaker::Cluster", "DependsOn")),
    "DPD-HP-018": ("hyperpod", _property("AWS::SageMaker::Cluster", "ClusterName")),
    "DPD-HP-019": ("hyperpod", _group_without("ThreadsPerCore")),
    "DPD-DATA-003": ("hyperpod", _attribute("AWS::SageMaker::Cluster", "DeletionPolicy", to="Delete")),
    "DPD-DATA-004": ("hyperpod", _plain_text_allowed),
    "DPD-DATA-005": ("cluster", _property("AWS::KMS::Key", "EnableKeyRotation")),
    "DPD-DATA-006": ("network", _property("AWS::Logs::LogGroup", "RetentionInDays")),
}
"""Part of the default deployment and change to its template, by the rule that has to find it."""

# Their resources come with the platform stack, with a closed network (tests below), or are in another stack than
# what they protect.
NOT_IN_THESE_STACKS = {
    "DPD-NET-017",
    "DPD-NET-021",
    "DPD-NET-022",
    "DPD-DATA-007",
    "DPD-DATA-008",
    "DPD-DATA-011",
}


def _closed() -> Any:
    return copy.deepcopy(synthesize(deployments()["closed"]).templates["network"])


def test_endpoint_that_forgets_the_gpu_subnet_is_found_in_a_closed_network() -> None:
    template = _closed()
    assert "DPD-NET-021" not in {finding.rule for finding in check_template(template)}
    (group,) = [
        group
        for group in _of(template["Resources"], "AWS::EC2::SecurityGroup")
        if group["Properties"].get("SecurityGroupIngress")
    ]
    del group["Properties"]["SecurityGroupIngress"][1]
    assert "DPD-NET-021" in {finding.rule for finding in check_template(template)}


def test_missing_endpoint_is_found_in_a_closed_network() -> None:
    template = _closed()
    assert "DPD-NET-022" not in {finding.rule for finding in check_template(template)}
    for name, endpoint in list(template["Resources"].items()):
        if str(endpoint.get("Properties", {}).get("ServiceName")).endswith(".sts"):
            del template["Resources"][name]
    assert "DPD-NET-022" in {finding.rule for finding in check_template(template)}


@pytest.mark.parametrize("rule", MUTATIONS)
def test_violation_in_a_real_template_is_found(rule: str) -> None:
    part, change = MUTATIONS[rule]
    template = copy.deepcopy(ready_synthesized().templates[part])
    assert rule not in {finding.rule for finding in check_template(template)}
    change(template["Resources"])
    assert rule in {finding.rule for finding in check_template(template)}


def test_every_template_rule_has_a_mutation() -> None:
    known = {rule.id for rule in rules_about(Subject.TEMPLATE)}
    assert known == MUTATIONS.keys() | NOT_IN_THESE_STACKS


def test_retention_is_not_demanded_after_both_acts_of_removal() -> None:
    template = copy.deepcopy(ready_synthesized().templates["hyperpod"])
    MUTATIONS["DPD-DATA-003"][1](template["Resources"])
    assert "DPD-DATA-003" not in {finding.rule for finding in check_template(template, deletes_data=True)}
