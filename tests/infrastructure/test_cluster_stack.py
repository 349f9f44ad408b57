"""The EKS template: what HyperPod demands of a cluster, and the defaults that would break it."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

from hyperpod_dpd.catalog.eks import addon, addon_version_key
from hyperpod_dpd.catalog.row import UnknownCatalogEntryError
from hyperpod_dpd.cluster import DpdCluster
from hyperpod_dpd.network import EfaSecurityGroup, ExistingNetwork
from hyperpod_dpd.spec import Cluster, Deployment, Removal, SystemNodes
from stacks.cluster import ClusterStack
from stacks.network import NetworkStack
from tests.support.template import (
    Resource,
    Template,
    app,
    depends_on,
    only,
    resources,
    synthesized,
    text,
)

ADMIN = "arn:aws:iam::123456789012:role/Admin"

Synthesize = Callable[..., Template]


@pytest.fixture(scope="module")
def synthesize(default_deployment: Deployment) -> Synthesize:
    def template(
        removal: Removal | None = None, platform: dict[str, Any] | None = None, **cluster: Any
    ) -> Template:
        deployment = replace(
            default_deployment,
            removal=removal or default_deployment.removal,
            platform=replace(default_deployment.platform, **(platform or {})),
            cluster=replace(default_deployment.cluster, **cluster),
        )
        application = app()
        network = NetworkStack(application, "network", deployment=deployment)
        return synthesized(
            ClusterStack(application, "cluster", deployment=deployment, network=network.network)
        )

    return template


@pytest.fixture(scope="module")
def template(synthesize: Synthesize) -> Template:
    return synthesize(administrators=(ADMIN,))


@pytest.fixture(scope="module")
def eks(template: Template) -> Resource:
    return only(template, "AWS::EKS::Cluster")[1]


def addons(template: Template) -> dict[str, Resource]:
    return {
        resource["Properties"]["AddonName"]: resource
        for resource in resources(template, "AWS::EKS::Addon").values()
    }


# -- control plane ------------------------------------------------------------------------------------------------


def test_cluster_is_a_native_resource_without_nested_stack_or_function(template: Template) -> None:
    only(template, "AWS::EKS::Cluster")
    assert not resources(template, "AWS::CloudFormation::Stack")
    assert not resources(template, "AWS::Lambda::Function")


def test_authentication_is_by_api_and_the_creator_gets_nothing(eks: Resource) -> None:
    assert eks["Properties"]["AccessConfig"] == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }


def test_auto_mode_is_off(eks: Resource) -> None:
    properties = eks["Properties"]
    assert properties["ComputeConfig"] == {"Enabled": False}
    assert properties["StorageConfig"] == {"BlockStorage": {"Enabled": False}}
    assert properties["KubernetesNetworkConfig"]["ElasticLoadBalancing"] == {"Enabled": False}


def test_every_control_plane_log_is_on(eks: Resource) -> None:
    enabled = {kind["Type"] for kind in eks["Properties"]["Logging"]["ClusterLogging"]["EnabledTypes"]}
    assert enabled == {"api", "audit", "authenticator", "controllerManager", "scheduler"}


def test_control_plane_logs_are_encrypted_and_end_because_the_group_exists_first(
    synthesize: Synthesize,
) -> None:
    template = synthesize(platform={"log_retention_days": 30})
    group_id, group = only(template, "AWS::Logs::LogGroup")
    _, cluster = only(template, "AWS::EKS::Cluster")
    assert group["Properties"]["LogGroupName"] == f"/aws/eks/{cluster['Properties']['Name']}/cluster"
    assert group["Properties"]["RetentionInDays"] == 30
    assert "KmsKeyId" in group["Properties"]
    assert group_id in depends_on(cluster)


def test_secrets_are_encrypted_with_a_key_that_rotates(template: Template, eks: Resource) -> None:
    (encryption,) = eks["Properties"]["EncryptionConfig"]
    assert encryption["Resources"] == ["secrets"]
    key_id = encryption["Provider"]["KeyArn"]["Fn::GetAtt"][0]
    assert template["Resources"][key_id]["Properties"]["EnableKeyRotation"] is True


def test_control_plane_gets_its_own_subnets_and_no_public_one(eks: Resource) -> None:
    subnets = [text(subnet) for subnet in eks["Properties"]["ResourcesVpcConfig"]["SubnetIds"]]
    assert len(subnets) == 2
    assert all("ControlPlane" in subnet for subnet in subnets)


def test_control_plane_shares_the_efa_group_so_that_nodes_reach_the_private_endpoint(eks: Resource) -> None:
    (group,) = eks["Properties"]["ResourcesVpcConfig"]["SecurityGroupIds"]
    assert "NetworkEfaGroup" in text(group)


def test_both_endpoints_are_on_and_the_public_one_is_limited_to_what_was_given(
    synthesize: Synthesize,
) -> None:
    _, cluster = only(synthesize(public_access_cidrs=("203.0.113.0/24",)), "AWS::EKS::Cluster")
    config = cluster["Properties"]["ResourcesVpcConfig"]
    assert config["EndpointPrivateAccess"] is True
    assert config["EndpointPublicAccess"] is True
    assert config["PublicAccessCidrs"] == ["203.0.113.0/24"]


def test_private_is_one_word(synthesize: Synthesize) -> None:
    _, cluster = only(synthesize(endpoint_access="private"), "AWS::EKS::Cluster")
    config = cluster["Properties"]["ResourcesVpcConfig"]
    assert config["EndpointPrivateAccess"] is True
    assert config["EndpointPublicAccess"] is False
    assert "PublicAccessCidrs" not in config


def test_version_and_name_are_the_deployments(eks: Resource) -> None:
    assert eks["Properties"]["Version"] == "1.35"
    assert eks["Properties"]["Name"] == "llama-3-3-70b-p5"


def test_services_have_a_fixed_range_outside_the_vpc(eks: Resource) -> None:
    assert eks["Properties"]["KubernetesNetworkConfig"]["ServiceIpv4Cidr"] == "172.20.0.0/16"


def test_a_version_that_hyperpod_does_not_support_is_refused(synthesize: Synthesize) -> None:
    with pytest.raises(UnknownCatalogEntryError, match=r"`1\.36`"):
        synthesize(kubernetes_version="1.36")


def test_nothing_is_left_unsaid_at_synthesis(default_deployment: Deployment) -> None:
    application = app()
    network = NetworkStack(application, "network", deployment=default_deployment)
    ClusterStack(application, "cluster", deployment=default_deployment, network=network.network)
    assembly = application.synth()
    for name in ("network", "cluster"):
        assert [message.entry.data for message in assembly.get_stack_by_name(name).messages] == []


# -- access -------------------------------------------------------------------------------------------------------


def test_administrators_get_cluster_admin(template: Template) -> None:
    _, entry = only(template, "AWS::EKS::AccessEntry")
    assert entry["Properties"]["PrincipalArn"] == ADMIN
    assert entry["Properties"]["Type"] == "STANDARD"
    (policy,) = entry["Properties"]["AccessPolicies"]
    assert policy["AccessScope"] == {"Type": "cluster"}
    assert text(policy["PolicyArn"]).endswith(":eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy")


def test_no_access_entry_is_made_for_nodes_which_hyperpod_and_eks_make_themselves(
    synthesize: Synthesize,
) -> None:
    assert not resources(synthesize(), "AWS::EKS::AccessEntry")


def test_reordered_administrators_replace_nothing(synthesize: Synthesize) -> None:
    other = "arn:aws:iam::123456789012:user/team/somebody"
    entries = [
        {
            logical_id: entry["Properties"]["PrincipalArn"]
            for logical_id, entry in resources(
                synthesize(administrators=order), "AWS::EKS::AccessEntry"
            ).items()
        }
        for order in ((ADMIN, other), (other, ADMIN))
    ]
    assert entries[0] == entries[1]
    assert len(entries[0]) == 2


def test_service_accounts_have_an_identity_provider(template: Template) -> None:
    cluster_id, _ = only(template, "AWS::EKS::Cluster")
    _, provider = only(template, "AWS::IAM::OIDCProvider")
    assert provider["Properties"]["ClientIdList"] == ["sts.amazonaws.com"]
    assert text(provider["Properties"]["Url"]) == f"${{{cluster_id}.OpenIdConnectIssuerUrl}}"


# -- system nodes -------------------------------------------------------------------------------------------------


def test_system_nodes_are_amd64_in_private_subnets_of_both_zones(template: Template) -> None:
    _, group = only(template, "AWS::EKS::Nodegroup")
    properties = group["Properties"]
    assert properties["AmiType"] == "AL2023_x86_64_STANDARD"
    assert properties["InstanceTypes"] == ["m6i.xlarge"]
    assert properties["ScalingConfig"] == {"MinSize": 2, "DesiredSize": 2, "MaxSize": 4}
    subnets = [text(subnet) for subnet in properties["Subnets"]]
    assert len(subnets) == 2
    assert all("System" in subnet for subnet in subnets)


@pytest.mark.parametrize("instance_type", ["m7g.xlarge", "t4g.large"])
def test_arm_nodes_are_refused(synthesize: Synthesize, instance_type: str) -> None:
    with pytest.raises(ValueError, match="system nodes are not amd64"):
        synthesize(system_nodes=SystemNodes(instance_type=instance_type))


def test_pods_cannot_take_the_credentials_of_system_nodes(template: Template) -> None:
    _, launch = only(template, "AWS::EC2::LaunchTemplate")
    assert launch["Properties"]["LaunchTemplateData"]["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
    }


def test_system_nodes_have_encrypted_volumes_of_the_given_size_and_no_ssh(synthesize: Synthesize) -> None:
    template = synthesize(system_nodes=SystemNodes(volume_gib=55))
    launch_id, launch = only(template, "AWS::EC2::LaunchTemplate")
    data = launch["Properties"]["LaunchTemplateData"]
    (volume,) = data["BlockDeviceMappings"]
    assert volume["DeviceName"] == "/dev/xvda"
    assert volume["Ebs"] == {"Encrypted": True, "VolumeSize": 55, "VolumeType": "gp3"}
    # user data or a security group of one's own would replace what EKS gives managed nodes
    assert not {"KeyName", "UserData", "SecurityGroupIds"} & set(data)
    _, group = only(template, "AWS::EKS::Nodegroup")
    assert "RemoteAccess" not in group["Properties"]
    assert group["Properties"]["LaunchTemplate"]["Id"] == {"Ref": launch_id}


def test_updates_of_system_nodes_respect_disruption_budgets(template: Template) -> None:
    _, group = only(template, "AWS::EKS::Nodegroup")
    assert group["Properties"]["ForceUpdateEnabled"] is False
    assert group["Properties"]["UpdateConfig"] == {"MaxUnavailable": 1}


def test_labels_of_system_nodes_use_no_reserved_prefix(template: Template) -> None:
    _, group = only(template, "AWS::EKS::Nodegroup")
    labels = group["Properties"]["Labels"]
    assert labels
    assert not any("kubernetes.io" in label or "k8s.io" in label for label in labels)


def test_tags_reach_the_instances_and_volumes_that_cost_money(default_deployment: Deployment) -> None:
    application = app()
    network = NetworkStack(application, "network", deployment=default_deployment)
    stack = ClusterStack(application, "cluster", deployment=default_deployment, network=network.network)
    cdk.Tags.of(application).add("cost-center", "inference")
    _, launch = only(synthesized(stack), "AWS::EC2::LaunchTemplate")
    specified = {
        specification["ResourceType"]: {tag["Key"]: tag["Value"] for tag in specification["Tags"]}
        for specification in launch["Properties"]["LaunchTemplateData"]["TagSpecifications"]
    }
    assert specified["instance"]["cost-center"] == "inference"
    assert specified["volume"]["cost-center"] == "inference"


# -- add-ons ------------------------------------------------------------------------------------------------------


def test_addons_that_need_no_gpu_node_are_pinned_and_overwrite(template: Template) -> None:
    installed = addons(template)
    assert set(installed) == {"vpc-cni", "kube-proxy", "eks-pod-identity-agent", "coredns"}
    for name, resource in installed.items():
        assert resource["Properties"]["AddonVersion"] == addon(name).pins["1.35"]
        assert resource["Properties"]["ResolveConflicts"] == "OVERWRITE"
        # EKS refuses inline associations for add-ons that need no permissions
        assert "PodIdentityAssociations" not in resource["Properties"]


def test_vpc_cni_is_new_enough_for_hyperpod(template: Template) -> None:
    version = addons(template)["vpc-cni"]["Properties"]["AddonVersion"]
    assert addon_version_key(version) >= (1, 18, 3, 0)


def test_versions_of_the_deployment_win(synthesize: Synthesize) -> None:
    template = synthesize(addon_versions={"coredns": "v1.14.2-eksbuild.4"})
    installed = addons(template)
    assert installed["coredns"]["Properties"]["AddonVersion"] == "v1.14.2-eksbuild.4"
    assert installed["kube-proxy"]["Properties"]["AddonVersion"] == addon("kube-proxy").pins["1.35"]


def test_kube_proxy_follows_an_older_kubernetes_version(synthesize: Synthesize) -> None:
    installed = addons(synthesize(kubernetes_version="1.33"))
    assert installed["kube-proxy"]["Properties"]["AddonVersion"].startswith("v1.33.")


def test_nodes_wait_for_the_network_plugin_and_dns_waits_for_nodes(template: Template) -> None:
    group_id, group = only(template, "AWS::EKS::Nodegroup")
    ids = {
        resource["Properties"]["AddonName"]: logical_id
        for logical_id, resource in resources(template, "AWS::EKS::Addon").items()
    }
    assert depends_on(group) == {ids["vpc-cni"], ids["kube-proxy"], ids["eks-pod-identity-agent"]}
    assert depends_on(addons(template)["coredns"]) == {group_id}


def test_dns_runs_on_system_nodes(template: Template) -> None:
    _, group = only(template, "AWS::EKS::Nodegroup")
    configuration = json.loads(addons(template)["coredns"]["Properties"]["ConfigurationValues"])
    assert configuration["nodeSelector"] == group["Properties"]["Labels"]


@pytest.mark.parametrize(
    ("network_policies", "configuration"),
    [
        ("enforced", {"enableNetworkPolicy": "true"}),
        # the agent crash-loops on HyperPod nodes when it has nothing to enforce
        ("rendered-only", {"enableNetworkPolicy": "false", "nodeAgent": {"enabled": False}}),
    ],
)
def test_the_platform_decides_whether_network_policies_are_enforced(
    synthesize: Synthesize, network_policies: str, configuration: dict[str, Any]
) -> None:
    template = synthesize(platform={"network_policies": network_policies})
    assert json.loads(addons(template)["vpc-cni"]["Properties"]["ConfigurationValues"]) == configuration


# -- between GPU nodes and system nodes ---------------------------------------------------------------------------


def test_gpu_nodes_and_system_nodes_reach_each_other(template: Template) -> None:
    cluster_id, _ = only(template, "AWS::EKS::Cluster")
    opened = {
        (text(rule["Properties"]["SourceSecurityGroupId"]), text(rule["Properties"]["GroupId"]))
        for rule in resources(template, "AWS::EC2::SecurityGroupIngress").values()
        if rule["Properties"]["IpProtocol"] == "-1"
    }
    system = f"${{{cluster_id}.ClusterSecurityGroupId}}"
    (efa,) = {group for pair in opened for group in pair if group != system}
    assert "NetworkEfaGroup" in efa
    assert opened == {(efa, system), (system, efa)}


# -- removal and outputs ------------------------------------------------------------------------------------------


def deletion_policies(template: Template) -> dict[str, set[str | None]]:
    policies: dict[str, set[str | None]] = {}
    for resource in template["Resources"].values():
        policies.setdefault(resource["Type"], set()).add(resource.get("DeletionPolicy"))
    return policies


def test_a_cluster_that_outlives_its_stack_keeps_its_nodes_network_and_identities(
    template: Template,
) -> None:
    policies = deletion_policies(template)
    for resource_type in (
        "AWS::EKS::Cluster",
        "AWS::KMS::Key",
        "AWS::Logs::LogGroup",
        "AWS::EKS::Nodegroup",
        "AWS::EC2::LaunchTemplate",
        "AWS::IAM::Role",
        "AWS::IAM::OIDCProvider",
        "AWS::EC2::SecurityGroupIngress",
    ):
        # a failed first creation cleans up: a cluster with this name would be in the way of the next attempt
        assert policies[resource_type] == {"RetainExceptOnCreate"}, resource_type
    assert all(resource["Properties"]["PreserveOnDelete"] for resource in addons(template).values())


def test_a_replaced_node_group_does_not_stay_beside_the_new_one(template: Template) -> None:
    for resource_type in ("AWS::EKS::Nodegroup", "AWS::EC2::LaunchTemplate"):
        _, resource = only(template, resource_type)
        assert resource["UpdateReplacePolicy"] == "Delete"


def test_an_administrator_who_leaves_loses_access(template: Template) -> None:
    assert deletion_policies(template)["AWS::EKS::AccessEntry"] == {None}


def test_everything_goes_after_two_acts(synthesize: Synthesize) -> None:
    template = synthesize(removal=Removal(delete_data_on_destroy=True, confirm="llama-3-3-70b-p5"))
    assert set().union(*deletion_policies(template).values()) == {"Delete", None}
    assert deletion_policies(template)["AWS::EKS::Cluster"] == {"Delete"}


def test_what_users_of_an_existing_cluster_need_is_published(template: Template) -> None:
    cluster_id, _ = only(template, "AWS::EKS::Cluster")
    provider_id, _ = only(template, "AWS::IAM::OIDCProvider")
    published = {
        parameter["Properties"]["Name"]: text(parameter["Properties"]["Value"])
        for parameter in resources(template, "AWS::SSM::Parameter").values()
        if "Name" in parameter["Properties"]
    }
    path = "/hyperpod-dpd/llama-3-3-70b-p5"
    assert published == {
        f"{path}/eks-name": f"${{{cluster_id}}}",
        f"{path}/eks-arn": f"${{{cluster_id}.Arn}}",
        f"{path}/eks-security-group-id": f"${{{cluster_id}.ClusterSecurityGroupId}}",
        f"{path}/oidc-provider-arn": f"${{{provider_id}}}",
    }


# -- library use --------------------------------------------------------------------------------------------------


def test_a_cluster_lives_in_a_network_of_your_own() -> None:
    stack = cdk.Stack(app(), "stack")
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-1", availability_zones=["eu-west-1a", "eu-west-1b"]
    )

    def subnet(subnet_id: str, zone: str) -> ec2.ISubnet:
        return ec2.Subnet.from_subnet_attributes(
            stack, subnet_id, subnet_id=subnet_id, availability_zone=zone, route_table_id="rtb-1"
        )

    efa = EfaSecurityGroup(stack, "Efa", vpc=vpc)
    network = ExistingNetwork(
        vpc=vpc,
        vpc_cidrs=("10.0.0.0/16",),
        cluster_subnets=(subnet("subnet-1", "eu-west-1a"), subnet("subnet-2", "eu-west-1b")),
        system_subnets=(subnet("subnet-3", "eu-west-1a"), subnet("subnet-4", "eu-west-1b")),
        gpu_subnet=subnet("subnet-5", "eu-west-1a"),
        efa_security_group=efa.security_group,
        efa_rules=efa.rules,
    )
    cluster = DpdCluster(stack, "Cluster", spec=Cluster(), network=network, name="mine")
    cluster.connections.allow_default_port_from(ec2.Peer.ipv4("10.0.0.0/16"))
    # something of yours that waits for system nodes and add-ons
    yours = cdk.CfnResource(stack, "Yours", type="AWS::CloudFormation::WaitConditionHandle")
    yours.node.add_dependency(cluster.ready)
    template = synthesized(stack)

    _, eks = only(template, "AWS::EKS::Cluster")
    assert eks["Properties"]["ResourcesVpcConfig"]["SubnetIds"] == ["subnet-1", "subnet-2"]
    group_id, group = only(template, "AWS::EKS::Nodegroup")
    assert group["Properties"]["Subnets"] == ["subnet-3", "subnet-4"]
    waits_for = depends_on(template["Resources"]["Yours"])
    assert group_id in waits_for
    assert set(resources(template, "AWS::EKS::Addon")) <= waits_for
    opened = resources(template, "AWS::EC2::SecurityGroupIngress").values()
    assert any(rule["Properties"].get("FromPort") == 443 for rule in opened)
