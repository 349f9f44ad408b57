"""The nodes' role: what it may do, and that what it may do to everything is named here."""

import json
from typing import Any

from tests.support.synth import KEY, Synthesized, deployments, ready_synthesized, synthesize


def _statements(synthesized: Synthesized | None = None) -> dict[str, Any]:
    policies = (synthesized or ready_synthesized()).resources("hyperpod", "AWS::IAM::Policy").values()
    (policy,) = [body for body in policies if "ExecutionRole" in json.dumps(body["Properties"]["Roles"])]
    return {statement["Sid"]: statement for statement in policy["Properties"]["PolicyDocument"]["Statement"]}


def _actions(statement: Any) -> set[str]:
    action = statement["Action"]
    return {action} if isinstance(action, str) else set(action)


def test_nodes_assume_it_and_nobody_else() -> None:
    roles = ready_synthesized().resources("hyperpod", "AWS::IAM::Role")
    (role,) = [body for name, body in roles.items() if "ExecutionRole" in name]
    (statement,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    (managed,) = role["Properties"]["ManagedPolicyArns"]
    assert "policy/AmazonSageMakerClusterInstanceRolePolicy" in json.dumps(managed)


def test_only_what_aws_cannot_scope_is_granted_on_everything() -> None:
    everything = {
        action
        for statement in _statements().values()
        if statement["Resource"] == "*"
        for action in _actions(statement)
    }
    assert everything == {
        "ec2:DescribeDhcpOptions",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeInstances",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeSubnets",
        "ec2:DescribeTags",
        "ec2:DescribeVpcs",
        "ecr:GetAuthorizationToken",
    }


def test_no_action_is_a_wildcard() -> None:
    assert not [
        action for statement in _statements().values() for action in _actions(statement) if "*" in action
    ]


def test_the_pod_network_manages_interfaces_in_the_gpu_subnet_and_the_efa_group_only() -> None:
    statement = _statements()["ManageInterfaces"]
    assert _actions(statement) == {
        "ec2:AssignPrivateIpAddresses",
        "ec2:AttachNetworkInterface",
        "ec2:CreateNetworkInterface",
        "ec2:CreateNetworkInterfacePermission",
        "ec2:DeleteNetworkInterface",
        "ec2:DeleteNetworkInterfacePermission",
        "ec2:DetachNetworkInterface",
        "ec2:ModifyNetworkInterfaceAttribute",
        "ec2:UnassignPrivateIpAddresses",
    }
    resources = [json.dumps(resource) for resource in statement["Resource"]]
    assert sum(":network-interface/*" in resource for resource in resources) == 1
    assert sum(":instance/*" in resource for resource in resources) == 1
    assert sum(":subnet/" in resource and "GpuSubnet" in resource for resource in resources) == 1
    assert sum(":security-group/" in resource and "EfaGroup" in resource for resource in resources) == 1
    assert len(resources) == 4


def test_pods_get_their_identities_from_this_cluster_only() -> None:
    statement = _statements()["PodIdentity"]
    assert _actions(statement) == {"eks-auth:AssumeRoleForPodIdentity"}
    assert "Fn::ImportValue" in statement["Resource"]


def test_images_are_pulled_in_this_region_and_never_pushed() -> None:
    statement = _statements()["PullImages"]
    assert statement["Resource"] == "arn:aws:ecr:us-east-1:*:repository/*"
    assert _actions(statement) == {
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:GetDownloadUrlForLayer",
    }


def test_scripts_are_read_and_never_written() -> None:
    statements = _statements()
    assert _actions(statements["ListScripts"]) == {"s3:ListBucket"}
    assert _actions(statements["ReadScripts"]) == {"s3:GetObject"}


def test_a_customers_key_of_volumes_is_lent_to_aws_and_only_through_sagemaker() -> None:
    assert not [sid for sid in _statements() if "VolumeKeys" in sid]
    statements = _statements(synthesize(deployments()["every-option"]))
    via_sagemaker = {"kms:ViaService": "sagemaker.us-east-1.amazonaws.com"}
    lend, describe = statements["LendVolumeKeys"], statements["DescribeVolumeKeys"]
    assert (lend["Action"], describe["Action"]) == ("kms:CreateGrant", "kms:DescribeKey")
    assert lend["Resource"] == describe["Resource"] == KEY
    assert lend["Condition"] == {
        "StringEquals": via_sagemaker,
        "Bool": {"kms:GrantIsForAWSResource": "true"},
    }
    assert describe["Condition"] == {"StringEquals": via_sagemaker}
