"""The platform stack: add-ons, identities, waits, and what a second deployment on a cluster makes."""

import json
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

from hyperpod_dpd.cluster.handle import ClusterHandle
from hyperpod_dpd.cluster.inference_operator import ROLE_PREFIX, operator_role_name
from hyperpod_dpd.cluster.kubectl import Kubectl
from hyperpod_dpd.derive.addons import INFERENCE_OPERATOR, OBSERVABILITY
from hyperpod_dpd.readiness import AddonActive, Gone, Readiness, Requirement, Wait, nodes_of
from hyperpod_dpd.security.logs import logs_key
from hyperpod_dpd.spec import Deployment, EndpointCertificate, ExistingCluster, InferenceOperator
from stacks.build import build
from tests.support.deployments import changed, ready
from tests.support.synth import Synthesized, deployments, synthesize
from tests.support.template import app, resources, synthesized, text

Template = Mapping[str, Any]


@cache
def _synthesized(name: str = "llama-3.3-70b-p5") -> Synthesized:
    return synthesize(deployments()[name])


def _platform(name: str = "llama-3.3-70b-p5") -> Template:
    return _synthesized(name).templates["platform"]


def _addons(template: Template) -> dict[str, Mapping[str, Any]]:
    return {
        body["Properties"]["AddonName"]: body["Properties"]
        for body in resources(template, "AWS::EKS::Addon").values()
    }


def _configuration(name: str) -> dict[str, Any]:
    given = _addons(_platform())[name]["ConfigurationValues"]
    parsed: dict[str, Any] = json.loads(text(given))
    return parsed


def _trust(template: Template, role: str) -> list[Mapping[str, Any]]:
    (body,) = [body for name, body in resources(template, "AWS::IAM::Role").items() if role in name]
    statements: list[Mapping[str, Any]] = body["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    return statements


def _associations(template: Template) -> set[tuple[str, str]]:
    return {
        (body["Properties"]["Namespace"], body["Properties"]["ServiceAccount"])
        for body in resources(template, "AWS::EKS::PodIdentityAssociation").values()
    }


# size


@pytest.mark.parametrize("name", ["llama-3.3-70b-p5", "alone", "shared"])
def test_templates_stay_below_three_fifths_of_what_cloudformation_takes(name: str) -> None:
    for part, template in _synthesized(name).templates.items():
        assert len(template["Resources"]) < 0.6 * 500, part
        assert len(json.dumps(template)) < 0.6 * 1_000_000, part
        assert len(template.get("Outputs", {})) < 0.6 * 200, part
        assert len(template.get("Parameters", {})) < 0.6 * 200, part


# add-ons


def test_the_inference_addon_is_configured_from_what_the_stack_makes() -> None:
    template = _platform()
    properties = _addons(template)[INFERENCE_OPERATOR]
    values = _configuration(INFERENCE_OPERATOR)
    assert properties["AddonVersion"] == "v1.5.0-eksbuild.1"
    assert set(values) == {
        "executionRoleArn",
        "tlsCertificateS3Bucket",
        "hyperpodClusterArn",
        "alb",
        "keda",
    }
    # an import of the HyperPod stack: the ARN ends with an id
    assert "hyperpod" in values["hyperpodClusterArn"]
    assert values["alb"]["enabled"] is True
    assert values["alb"]["serviceAccount"]["create"] is True
    assert values["keda"]["auth"]["aws"]["irsa"]["enabled"] is True
    arns = {
        values["executionRoleArn"],
        values["alb"]["serviceAccount"]["roleArn"],
        values["keda"]["auth"]["aws"]["irsa"]["roleArn"],
    }
    roles = resources(template, "AWS::IAM::Role")
    assert len(arns) == 3
    assert all(arn.removeprefix("${").removesuffix(".Arn}") in roles for arn in arns)


def test_the_certificate_bucket_has_the_name_that_the_operator_may_write_to() -> None:
    names = [
        text(body["Properties"].get("BucketName", ""))
        for body in resources(_platform(), "AWS::S3::Bucket").values()
    ]
    (name,) = [name for name in names if name.startswith("hyperpod-tls-")]
    assert name.endswith("us-east-1")


def test_the_role_of_the_operator_has_the_name_that_the_addon_looks_for() -> None:
    (name,) = [
        body["Properties"]["RoleName"]
        for body in resources(_platform(), "AWS::IAM::Role").values()
        if "RoleName" in body["Properties"]
    ]
    assert name.startswith(ROLE_PREFIX)
    longest = changed(ready(), name="n" * 40, region="ap-southeast-2")
    assert len(operator_role_name(longest)) <= 64
    # two clusters whose names begin alike, and end after what the role's name has room for
    alike = [changed(longest, name=f"{'n' * 39}{last}") for last in "ab"]
    assert len({operator_role_name(deployment) for deployment in alike}) == 2
    # two clusters of an account in two regions
    assert operator_role_name(ready()) != operator_role_name(changed(ready(), region="us-west-2"))


def test_efa_counters_are_on() -> None:
    metrics = _configuration(OBSERVABILITY)["metricsProvider"]
    assert metrics["networkMetrics"] == {"level": "ADVANCED", "scrapeInterval": 30}


def test_the_workspace_is_named_without_a_slash_at_its_end() -> None:
    endpoint = _configuration(OBSERVABILITY)["ampWorkspace"]["prometheusEndpoint"]
    assert endpoint.startswith("https://aps-workspaces.us-east-1.amazonaws.com/workspaces/")
    assert not endpoint.endswith("/")


def test_a_version_and_a_bucket_of_the_deployment_are_used() -> None:
    deployment = changed(
        ready(),
        platform__inference_operator=InferenceOperator(
            version="v1.4.0-eksbuild.1", tls_bucket="hyperpod-tls-mine"
        ),
        serving__operator__certificate=EndpointCertificate(
            domain_name="llama.example.com", hosted_zone_id="Z0123456789"
        ),
    )
    application = app()
    template = synthesized(build(application, deployment).platform)
    properties = _addons(template)[INFERENCE_OPERATOR]
    assert properties["AddonVersion"] == "v1.4.0-eksbuild.1"
    assert (
        json.loads(text(properties["ConfigurationValues"]))["tlsCertificateS3Bucket"] == "hyperpod-tls-mine"
    )
    (records,) = [
        statement
        for body in resources(template, "AWS::IAM::Policy").values()
        for statement in body["Properties"]["PolicyDocument"]["Statement"]
        if statement.get("Sid") == "NameTheEndpoint"
    ]
    assert text(records["Resource"]) == "arn:aws:route53:::hostedzone/Z0123456789"


def test_the_addon_and_controllers_of_its_own_are_never_both_there() -> None:
    releases = {
        name: {
            body["Properties"]["Release"]
            for body in resources(_platform(name), "Custom::AWSCDK-EKS-HelmChart").values()
        }
        for name in ("llama-3.3-70b-p5", "alone")
    }
    assert INFERENCE_OPERATOR in _addons(_platform())
    assert not releases["llama-3.3-70b-p5"] & {"keda", "aws-load-balancer-controller"}
    assert INFERENCE_OPERATOR not in _addons(_platform("alone"))
    assert releases["alone"] >= {"keda", "aws-load-balancer-controller"}


def _controllers(deployment: Deployment) -> set[str]:
    """Return who brings KEDA or a load balancer controller to the cluster of `deployment`."""
    template = synthesized(build(app(), deployment).platform)
    releases = {
        body["Properties"]["Release"] for body in resources(template, "Custom::AWSCDK-EKS-HelmChart").values()
    }
    addon = {INFERENCE_OPERATOR} & _addons(template).keys()
    return addon | (releases & {"keda", "aws-load-balancer-controller"})


def test_controllers_change_hands_by_a_step_in_which_nobody_has_them() -> None:
    """The steps of `docs/how-to/change-the-backend.md`: CloudFormation makes the new before it removes the old."""
    neither = changed(
        ready(),
        platform__inference_operator=None,
        platform__autoscaling=False,
        platform__load_balancer_controller=False,
    )
    charts = changed(neither, platform__autoscaling=True, platform__load_balancer_controller=True)
    steps = [_controllers(ready()), _controllers(neither), _controllers(charts)]
    assert steps == [{INFERENCE_OPERATOR}, set(), {"keda", "aws-load-balancer-controller"}]
    # in no step, in either direction, is one of them made while another is there
    for before, after in pairwise(steps):
        assert not (after - before and before - after)


def test_no_addon_carries_its_identity_inside() -> None:
    for properties in _addons(_platform()).values():
        assert "PodIdentityAssociations" not in properties


# identities


@pytest.mark.parametrize("name", ["llama-3.3-70b-p5", "alone", "shared"])
def test_every_pod_identity_is_for_one_service_account_of_one_cluster(name: str) -> None:
    template = _platform(name)
    seen = set()
    for association in resources(template, "AWS::EKS::PodIdentityAssociation").values():
        properties = association["Properties"]
        role = properties["RoleArn"]["Fn::GetAtt"][0]
        (statement,) = template["Resources"][role]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert set(statement["Action"]) == {"sts:AssumeRole", "sts:TagSession"}
        only = statement["Condition"]["StringEquals"]
        assert only["aws:RequestTag/kubernetes-namespace"] == properties["Namespace"]
        assert only["aws:RequestTag/kubernetes-service-account"] == properties["ServiceAccount"]
        assert f"cluster/{properties['ClusterName']}" in text(only["aws:RequestTag/eks-cluster-arn"])
        seen.add(role)
    # one role each
    assert len(seen) == len(_associations(template))


@pytest.mark.parametrize(
    ("role", "account"),
    [
        ("AddonsStorageS3Role", "kube-system:s3-csi-driver-sa"),
        ("InferenceOperatorRole", "hyperpod-inference-system:hyperpod-inference-controller-manager"),
        ("InferenceOperatorLoadBalancersRole", "hyperpod-inference-system:aws-load-balancer-controller"),
        ("InferenceOperatorKedaRole", "hyperpod-inference-system:keda-operator"),
    ],
)
def test_a_web_identity_is_for_one_service_account_and_audience(role: str, account: str) -> None:
    template = _platform()
    statement = _trust(template, role)[0]
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    keys = statement["Condition"]["StringEquals"]["Fn::GetAtt"][0]
    value = "".join(
        part if isinstance(part, str) else "ISSUER"
        for part in template["Resources"][keys]["Properties"]["Value"]["Fn::Join"][1]
    )
    assert json.loads(value) == {
        "ISSUER:aud": "sts.amazonaws.com",
        "ISSUER:sub": f"system:serviceaccount:{account}",
    }


def test_only_sagemaker_may_take_the_operators_role_besides() -> None:
    others = _trust(_platform(), "InferenceOperatorRole")[1:]
    assert [(other["Action"], other["Principal"]) for other in others] == [
        ("sts:AssumeRole", {"Service": "sagemaker.amazonaws.com"})
    ]


def test_workers_and_the_proof_have_identities_and_the_router_none() -> None:
    name = ready().name
    associations = _associations(_platform())
    assert (f"{name}-workers", "worker") in associations
    assert (f"{name}-system", "proof") in associations
    assert (f"{name}-system", "router") not in associations


# waits


def _wait(
    *requirements: Requirement, within: cdk.Duration | None = None, revision: str = ""
) -> dict[str, set[str]]:
    """Return the logical ids of a wait's parts by type."""
    stack = cdk.Stack(app(), "platform", env=cdk.Environment(region="us-east-1"))
    Wait(
        stack,
        "Nodes",
        readiness=_readiness(stack),
        requirements=requirements,
        within=within or cdk.Duration.hours(12),
        revision=revision,
    )
    template = synthesized(stack)
    return {
        kind: {name for name in resources(template, kind) if name.startswith("Nodes")}
        for kind in (
            "Custom::DpdWait",
            "AWS::CloudFormation::WaitConditionHandle",
            "AWS::CloudFormation::WaitCondition",
            "AWS::Events::Rule",
            "AWS::IAM::Policy",
        )
    }


def _readiness(stack: cdk.Stack) -> Readiness:
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-1", availability_zones=["a"], private_subnet_ids=["subnet-1"]
    )
    handle = ClusterHandle(
        eks_name="dpd",
        eks_arn="arn:aws:eks:us-east-1:123456789012:cluster/dpd",
        security_group_id="sg-1",
        vpc=vpc,
        subnets=vpc.private_subnets,
        gpu_subnet_id="subnet-1",
        gpu_security_group_id="sg-2",
        hyperpod_name="dpd",
        hyperpod_arn="arn:aws:sagemaker:us-east-1:123456789012:cluster/abc",
    )
    return Readiness(
        stack,
        "Readiness",
        name="dpd",
        handle=handle,
        kubectl=Kubectl(stack, "Kubectl", handle=handle),
        log_key=logs_key(stack, "Key", removal_policy=cdk.RemovalPolicy.DESTROY),
    )


def test_a_wait_is_renewed_when_what_it_waits_for_changes_and_only_then() -> None:
    first = _wait(nodes_of(ready()))
    assert first == _wait(nodes_of(ready()))
    more = changed(ready(), hyperpod__instance_groups__0__count=7)
    for other in (
        _wait(nodes_of(more)),
        _wait(nodes_of(ready()), revision="another image"),
        _wait(nodes_of(ready()), within=cdk.Duration.hours(1)),
    ):
        for kind, names in first.items():
            assert len(names) == len(other[kind]) == 1, kind
            assert not names & other[kind], kind


@pytest.mark.parametrize("within", [cdk.Duration.hours(13), cdk.Duration.minutes(9)])
def test_a_wait_that_cloudformation_would_refuse_is_refused_here(within: cdk.Duration) -> None:
    with pytest.raises(ValueError, match="help: choose a time in between"):
        _wait(AddonActive(name="coredns"), within=within)


def test_a_wait_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="waits for nothing"):
        _wait()


def _asked(template: Template, wait: str) -> list[dict[str, Any]]:
    """Return what the poller is asked to look at for a wait."""
    (rule,) = [body for name, body in resources(template, "AWS::Events::Rule").items() if wait in name]
    (target,) = rule["Properties"]["Targets"]
    parts = target["InputTransformer"]["InputTemplate"]["Fn::Join"][1]
    written = "".join(part if isinstance(part, str) else "token" for part in parts)
    (path,) = target["InputTransformer"]["InputPathsMap"]
    asked: list[dict[str, Any]] = json.loads(written.replace(f"<{path}>", '"arn"'))["requirements"]
    return asked


@pytest.mark.parametrize("name", ["llama-3.3-70b-p5", "alone"])
def test_whatever_has_a_webhook_is_waited_for_until_it_answers(name: str) -> None:
    paths = [
        [asked["path"] for asked in _asked(_platform(name), wait) if asked["is"] == "webhook-answers"]
        for wait in ("AddonsWork", "ControllersWork")
    ]
    assert paths == [
        ["/apis/cert-manager.io/v1/namespaces/default/certificates"],
        ["/apis/networking.k8s.io/v1/namespaces/default/ingresses"],
    ]


def test_the_poller_may_do_whatever_it_is_asked_to() -> None:
    (rights,) = [
        json.loads(body["Properties"]["Manifest"])
        for body in resources(_platform(), "Custom::AWSCDK-EKS-KubernetesResource").values()
    ]
    may = {
        (group, resource, verb)
        for entry in rights
        for rule in entry.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    # nothing but looking, besides creations that are rehearsed
    assert {verb for _, _, verb in may} == {"get", "list", "create"}
    creates = {(group, resource) for group, resource, verb in may if verb == "create"}
    assert creates == {("cert-manager.io", "certificates"), ("networking.k8s.io", "ingresses")}
    (role,) = [entry for entry in rights if entry["kind"] == "Role"]
    assert role["metadata"]["namespace"] == "default"
    assert not any(
        "create" in rule["verbs"]
        for entry in rights
        if entry["kind"] == "ClusterRole"
        for rule in entry["rules"]
    )


def test_the_poller_may_stop_the_schedules_of_its_own_waits_only() -> None:
    stops = [
        statement
        for body in resources(_platform(), "AWS::IAM::Policy").values()
        for statement in body["Properties"]["PolicyDocument"]["Statement"]
        if statement["Action"] == "events:DisableRule"
    ]
    rules = resources(_platform(), "AWS::Events::Rule")
    assert len(stops) == 3
    assert all(stop["Resource"]["Fn::GetAtt"][0] in rules for stop in stops)


def test_a_resource_whose_deletion_waits_names_its_namespaces() -> None:
    stack = cdk.Stack(app(), "serving", env=cdk.Environment(region="us-east-1"))
    Gone(stack, "Gone", readiness=_readiness(stack), namespaces=["dpd-system", "dpd-workers"])
    (body,) = resources(synthesized(stack), "Custom::DpdGone").values()
    assert body["Properties"]["Namespaces"] == ["dpd-system", "dpd-workers"]
    assert body["Properties"]["ServiceTimeout"] == "3600"


# a cluster of somebody else


def test_a_second_deployment_makes_nothing_that_exists_once_per_cluster() -> None:
    template = _platform("shared")
    kinds = {body["Type"] for body in template["Resources"].values()}
    assert not kinds & {
        "AWS::EKS::Addon",
        "AWS::APS::Workspace",
        "AWS::CloudWatch::Alarm",
        "Custom::AWSCDK-EKS-HelmChart",
    }
    assert kinds >= {"Custom::DpdWait", "AWS::S3::Bucket", "AWS::SNS::Topic", "AWS::APS::RuleGroupsNamespace"}


def test_a_second_deployment_reads_what_the_owner_publishes() -> None:
    other = _platform("shared")
    published = {
        str(body["Properties"].get("Name")).removeprefix("/hyperpod-dpd/llama-3-3-70b-p5/")
        for part in ("network", "cluster", "hyperpod", "platform")
        for body in _synthesized().resources(part, "AWS::SSM::Parameter").values()
    }
    read = {
        parameter["Default"].removeprefix("/hyperpod-dpd/dpd/")
        for parameter in other["Parameters"].values()
        if str(parameter.get("Default", "")).startswith("/hyperpod-dpd/dpd/")
    }
    assert read
    assert read <= published


def test_a_cluster_without_published_values_is_asked_for_by_name() -> None:
    deployment = changed(
        ready(), cluster__existing=ExistingCluster(eks_name="theirs", hyperpod_name="theirs-hp")
    )
    template = synthesized(build(app(), deployment).platform)
    calls = [json.loads(body["Properties"]["Create"]) for body in resources(template, "Custom::AWS").values()]
    assert {(call["service"], call["action"]) for call in calls} == {
        ("eks", "describeCluster"),
        ("sagemaker", "describeCluster"),
    }
    assert {json.dumps(call["parameters"]) for call in calls} == {
        '{"name": "theirs"}',
        '{"ClusterName": "theirs-hp"}',
    }


def test_bindings_reach_the_serving_stack_by_parameters_and_not_by_exports() -> None:
    platform, serving = (_synthesized().templates[part] for part in ("platform", "serving"))
    written = {
        body["Properties"]["Name"]
        for body in resources(platform, "AWS::SSM::Parameter").values()
        if "/bindings/" in str(body["Properties"].get("Name"))
    }
    read = {
        parameter["Default"]
        for parameter in serving["Parameters"].values()
        if "/bindings/" in str(parameter.get("Default"))
    }
    assert read
    assert read <= written
    # an image that is built anew changes its value, and an export that is used cannot change
    assert "Images" not in json.dumps(platform.get("Outputs", {}))


# -- logs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama-3.3-70b-p5", "alone", "shared"])
def test_every_function_logs_to_a_group_of_its_stack(name: str) -> None:
    for part, template in _synthesized(name).templates.items():
        named = json.dumps(
            [body["Properties"] for body in resources(template, "AWS::Logs::LogGroup").values()]
        )
        for function, body in resources(template, "AWS::Lambda::Function").items():
            given = body["Properties"].get("LoggingConfig", {}).get("LogGroup")
            own = json.dumps({"Fn::Join": ["", ["/aws/lambda/", {"Ref": function}]]})
            assert given or own in named, f"{part}/{function} lets Lambda make its log group"


@pytest.mark.parametrize("name", ["llama-3.3-70b-p5", "removable"])
def test_every_log_group_is_encrypted_kept_as_long_as_the_file_says_and_removed_with_the_rest(
    name: str,
) -> None:
    deployment = changed(deployments()[name], platform__log_retention_days=30)
    policy = "Delete" if deployment.deletes_data else "RetainExceptOnCreate"
    groups = resources(synthesize(deployment).templates["platform"], "AWS::Logs::LogGroup")
    assert len(groups) > 6
    for group, body in groups.items():
        assert body["Properties"]["RetentionInDays"] == 30, group
        assert "KmsKeyId" in body["Properties"], group
        assert body["DeletionPolicy"] == policy, group


def test_the_helper_of_json_keys_runs_only_once_its_log_group_exists() -> None:
    template = _platform()
    (group,) = [name for name in resources(template, "AWS::Logs::LogGroup") if name.startswith("HelperLogs")]
    helped = resources(template, "Custom::AWSCDKCfnJson")
    assert helped
    assert all(group in body["DependsOn"] for body in helped.values())
