"""Public charts on the cluster: their values, where they come from, and what their pods may do in AWS."""

import dataclasses
import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer

from hyperpod_dpd.catalog.cluster_charts import (
    CLUSTER_CHARTS,
    EXTERNAL_SECRETS,
    KEDA,
    LOAD_BALANCER_CONTROLLER,
    ClusterChart,
)
from hyperpod_dpd.cluster.external_secrets import ExternalSecrets
from hyperpod_dpd.images import account_registry
from hyperpod_dpd.security.secrets import DeploymentSecrets
from hyperpod_dpd.spec import Deployment, HubOrigin
from tests.support.deployments import changed, ready
from tests.support.template import app, only, resources, synthesized
from tools.chart_values import main, paths, problems, values_of

RETAIN = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
OWN = "hyperpod-dpd/llama-3-3-70b-p5/huggingface"
MIRRORED = changed(ready(), platform__images__mirror_public_images=True)

charts = pytest.mark.parametrize("chart", CLUSTER_CHARTS, ids=lambda chart: chart.archive.name)


class _Stack(cdk.Stack):
    def __init__(self, deployment: Deployment) -> None:
        super().__init__(app(), "Platform", env=cdk.Environment(region=deployment.region))
        vpc = ec2.Vpc(self, "Vpc", max_azs=2)
        cluster = eks.Cluster(
            self,
            "Eks",
            version=eks.KubernetesVersion.V1_35,
            vpc=vpc,
            kubectl_provider_options=eks.KubectlProviderOptions(kubectl_layer=KubectlV35Layer(self, "Layer")),
        )
        self.access = cdk.CfnResource(self, "Access", type="AWS::EKS::AccessEntry")
        self.external = ExternalSecrets(
            self,
            "ExternalSecrets",
            deployment=deployment,
            cluster=cast("eks.ICluster", cluster),
            secrets=DeploymentSecrets(self, "Secrets", deployment=deployment, removal_policy=RETAIN),
            registry=account_registry(self),
            needs=[self.access],
        )


@cache
def _template(*, mirrored: bool = False) -> Any:
    deployment = changed(
        ready(),
        model__imported_from=HubOrigin(token_secret=OWN),
        routing__api_keys_secret="mine/keys",
        platform__images__mirror_public_images=mirrored,
    )
    return synthesized(_Stack(deployment))


def _release(*, mirrored: bool = False) -> Any:
    (body,) = resources(_template(mirrored=mirrored), "Custom::AWSCDK-EKS-HelmChart").values()
    return body


@charts
@pytest.mark.parametrize("deployment", [ready(), MIRRORED], ids=["public", "mirrored"])
def test_only_values_that_the_chart_has_are_set(chart: ClusterChart, deployment: Deployment) -> None:
    assert sorted(paths(values_of(chart, deployment))) == sorted(chart.values)


@charts
def test_pods_run_the_catalogs_images_or_their_copies(chart: ClusterChart) -> None:
    def images(deployment: Deployment) -> set[str]:
        found = set()
        image = values_of(chart, deployment)["image"]
        for part in (
            [image] if "repository" in image else [row for row in image.values() if row != "IfNotPresent"]
        ):
            host = f"{part['registry']}/" if "registry" in part else ""
            found.add(f"{host}{part['repository']}:{part['tag']}")
        return found

    assert images(ready()) == set(chart.images)
    registry = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
    assert images(MIRRORED) == {f"{registry}/mirror/{image}" for image in chart.images}


@charts
def test_a_chart_is_pinned_to_its_bytes(chart: ClusterChart) -> None:
    assert len(chart.archive.sha256) == 64
    assert chart.archive.version in chart.archive.url
    assert chart.archive.url.endswith(".tgz")


def test_webhooks_that_would_hold_up_the_first_deployment_are_off() -> None:
    assert values_of(EXTERNAL_SECRETS, ready())["webhook"] == {"create": False}
    assert values_of(LOAD_BALANCER_CONTROLLER, ready())["enableServiceMutatorWebhook"] is False


def test_a_release_comes_from_its_repository_in_the_catalogs_version() -> None:
    given = _release()["Properties"]
    assert given["Chart"] == "external-secrets"
    assert given["Repository"] == "https://charts.external-secrets.io"
    assert given["Version"] == EXTERNAL_SECRETS.archive.version
    assert given["Namespace"] == "external-secrets"
    assert given.get("Wait", False) is False


def test_a_closed_network_takes_chart_and_image_from_the_account() -> None:
    given = _release(mirrored=True)["Properties"]
    assert json.dumps(given["Repository"]).startswith('{"Fn::Join": ["", ["oci://')
    assert "/mirror/charts/external-secrets" in json.dumps(given["Repository"])
    assert "/mirror/ghcr.io/external-secrets/external-secrets" in json.dumps(given["Values"])


def test_a_release_waits_for_its_identity_and_for_what_it_is_told() -> None:
    template = _template()
    needed = {template["Resources"][name]["Type"] for name in _release()["DependsOn"]}
    assert {"AWS::EKS::PodIdentityAssociation", "AWS::EKS::AccessEntry", "AWS::IAM::Role"} <= needed


def test_the_operator_has_an_identity_of_its_own() -> None:
    template = _template()
    association = only(template, "AWS::EKS::PodIdentityAssociation")[1]["Properties"]
    assert (association["Namespace"], association["ServiceAccount"]) == (
        EXTERNAL_SECRETS.namespace,
        EXTERNAL_SECRETS.service_account,
    )
    (name,) = [key for key in resources(template, "AWS::IAM::Role") if key.startswith("ExternalSecrets")]
    assert association["RoleArn"] == {"Fn::GetAtt": [name, "Arn"]}
    trust = template["Resources"][name]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert [(row["Principal"], row["Action"]) for row in trust] == [
        ({"Service": "pods.eks.amazonaws.com"}, ["sts:AssumeRole", "sts:TagSession"])
    ]
    tags = trust[0]["Condition"]["StringEquals"]
    assert tags["aws:RequestTag/kubernetes-service-account"] == EXTERNAL_SECRETS.service_account


def test_the_operator_reads_named_secrets_and_those_of_deployments() -> None:
    template = _template()
    (policy,) = [
        body
        for key, body in resources(template, "AWS::IAM::Policy").items()
        if key.startswith("ExternalSecrets")
    ]
    statements = policy["Properties"]["PolicyDocument"]["Statement"]
    assert all(statement["Effect"] == "Allow" for statement in statements)
    actions = {
        action
        for statement in statements
        for action in (
            statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        )
    }
    assert actions == {"secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue", "kms:Decrypt"}
    read = json.dumps([row["Resource"] for row in statements if "kms:Decrypt" not in row["Action"]])
    assert ":secret:mine/keys-??????" in read
    assert ":secret:hyperpod-dpd/*" in read
    assert '"*"' not in read
    for statement in statements:
        if statement["Action"] == "kms:Decrypt":
            assert statement["Condition"]["StringEquals"] == {
                "kms:ViaService": "secretsmanager.us-east-1.amazonaws.com"
            }


def _packaged(folder: Path, chart: ClusterChart, **defaults: Any) -> Path:
    """Write a small chart with the row's name, version, values and pod."""
    values: dict[str, Any] = {}
    for name in chart.values:
        below = values
        *parents, last = name.split(".")
        for parent in parents:
            below = below.setdefault(parent, {})
        below[last] = None
    values |= defaults
    (folder / "templates").mkdir(parents=True)
    about = {"apiVersion": "v2", "name": chart.archive.name, "version": chart.archive.version}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    (folder / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    (folder / "templates/pod.yaml").write_text(
        """
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller}
spec:
  template:
    spec:
      serviceAccountName: {{ .Values.serviceAccount.name }}
      nodeSelector: {{ toJson .Values.nodeSelector }}
      containers: [{name: it, image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"}]
""",
        encoding="utf-8",
    )
    return folder


def _problems(folder: Path, chart: ClusterChart = EXTERNAL_SECRETS) -> list[str]:
    return list(problems(chart, folder, ready()))


def test_the_tool_accepts_a_chart_that_is_as_the_catalog_says(tmp_path: Path) -> None:
    folder = _packaged(tmp_path / "external-secrets", EXTERNAL_SECRETS)
    assert _problems(folder) == []
    assert main([str(folder)]) == 0


def test_the_tool_finds_a_renamed_value(tmp_path: Path) -> None:
    folder = _packaged(tmp_path / "external-secrets", EXTERNAL_SECRETS)
    text = (folder / "values.yaml").read_text(encoding="utf-8")
    (folder / "values.yaml").write_text(
        text.replace("processPushSecret", "handlePushSecret"), encoding="utf-8"
    )
    assert _problems(folder) == ["it has no value `processPushSecret`"]
    assert main([str(folder)]) == 1


def test_the_tool_finds_other_images_other_nodes_and_another_account(tmp_path: Path) -> None:
    folder = _packaged(tmp_path / "external-secrets", EXTERNAL_SECRETS)
    template = folder / "templates/pod.yaml"
    text = template.read_text(encoding="utf-8")
    for old, new, words in (
        (
            "{{ .Values.image.tag }}",
            "latest",
            "its pods run ['ghcr.io/external-secrets/external-secrets:latest']",
        ),
        ("{{ toJson .Values.nodeSelector }}", "{}", "the pods of `controller` may run on any node"),
        ("{{ .Values.serviceAccount.name }}", "default", "no pod runs as `external-secrets`"),
    ):
        template.write_text(text.replace(old, new), encoding="utf-8")
        (problem,) = _problems(folder)
        assert words in problem


def test_the_tool_finds_another_version(tmp_path: Path) -> None:
    row = EXTERNAL_SECRETS
    older = dataclasses.replace(row, archive=dataclasses.replace(row.archive, version="2.8.0"))
    folder = _packaged(tmp_path / "external-secrets", older)
    assert _problems(folder) == ["it is external-secrets 2.8.0, the catalog says 2.9.0"]


def test_the_tool_refuses_an_archive_with_other_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _packaged(tmp_path / "external-secrets", EXTERNAL_SECRETS)
    archive = tmp_path / "external-secrets-2.9.0.tgz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, "external-secrets")
    assert main([str(archive)]) == 1
    assert "it has sha256" in capsys.readouterr().out


def test_kedas_values_name_registry_and_path_apart() -> None:
    image = values_of(KEDA, ready())["image"]["metricsApiServer"]
    assert image == {"registry": "ghcr.io", "repository": "kedacore/keda-metrics-apiserver", "tag": "2.20.2"}
