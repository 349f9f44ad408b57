"""A Helm release: what CloudFormation hands to the provider, and what is refused before."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from hyperpod_dpd.serving.bindings import Binding, BindingError
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.release import Release
from tests.support.helm import by_identity, render_chart
from tests.support.manifests import BOUND, rendering
from tests.support.synth import context

GIVEN = {
    binding: BOUND[binding.name]
    for binding in (Binding.WORKER_IMAGE, Binding.ROUTER_IMAGE, Binding.MODEL_BUCKET)
}


def _stack(folder: Path) -> tuple[cdk.Stack, eks.ICluster]:
    stack = cdk.Stack(cdk.App(outdir=str(folder), context=context()), "stack")
    role = iam.Role.from_role_arn(stack, "Role", "arn:aws:iam::123456789012:role/kubectl")
    provider = eks.KubectlProvider.from_kubectl_provider_attributes(
        stack,
        "Provider",
        service_token="arn:aws:lambda:us-east-1:123456789012:function:kubectl",
        role=role,
    )
    cluster = eks.Cluster.from_cluster_attributes(
        stack, "Cluster", cluster_name="cluster", kubectl_provider=provider
    )
    return stack, cluster


def _resource(stack: cdk.Stack) -> dict[str, Any]:
    (body,) = Template.from_stack(stack).find_resources("Custom::AWSCDK-EKS-HelmChart").values()
    properties: dict[str, Any] = body["Properties"]
    return properties


def test_provider_gets_a_chart_and_a_small_payload(tmp_path: Path) -> None:
    stack, cluster = _stack(tmp_path)
    bindings = {**GIVEN, Binding.MODEL_BUCKET: cdk.Fn.import_value("Bucket"), Binding.FSX_DNS_NAME: "a.b"}
    release = Release(
        stack, "Release", cluster=cluster, rendering=rendering("p5"), name="dpd", bindings=bindings
    )
    properties = _resource(stack)
    assert properties["Release"] == "dpd"
    assert properties["Namespace"] == "default"
    assert properties["Timeout"] == "600s"
    # absent, the provider's function waits for nothing and Helm makes no namespace
    assert not {"Wait", "Atomic", "CreateNamespace"} & {key for key in properties if properties[key]}
    values = json.dumps(properties["Values"])
    assert '"Fn::ImportValue": "Bucket"' in values
    assert "FSX" not in values
    assert len(json.dumps(properties)) < 4096
    assert release.asset_hash in json.dumps(properties["ChartAssetURL"])


def test_asset_is_the_chart_of_the_rendering(tmp_path: Path) -> None:
    stack, cluster = _stack(tmp_path)
    release = Release(
        stack, "Release", cluster=cluster, rendering=rendering("p5"), name="dpd", bindings=GIVEN
    )
    values = json.loads(_resource(stack)["Values"])
    objects = render_chart(tmp_path / f"asset.{release.asset_hash}", values)
    expected = {
        (entry["kind"], entry["metadata"].get("namespace", ""), entry["metadata"]["name"])
        for entry in rendering("p5").objects
    }
    assert by_identity(objects).keys() == expected


def test_missing_bindings_are_refused_all_at_once_when_the_stack_is_made(tmp_path: Path) -> None:
    stack, cluster = _stack(tmp_path)
    with pytest.raises(BindingError) as caught:
        Release(
            stack,
            "Release",
            cluster=cluster,
            rendering=rendering("p5"),
            name="dpd",
            bindings={Binding.WORKER_IMAGE: BOUND["WORKER_IMAGE"]},
        )
    assert [problem.split("`")[1] for problem in caught.value.problems] == ["ROUTER_IMAGE", "MODEL_BUCKET"]
    assert all(" help: " in problem for problem in caught.value.problems)


def test_a_tag_where_a_digest_is_demanded_is_refused_when_the_stack_is_made(tmp_path: Path) -> None:
    stack, cluster = _stack(tmp_path)
    with pytest.raises(BindingError, match="`ROUTER_IMAGE` does not fit: given `router:latest`"):
        Release(
            stack,
            "Release",
            cluster=cluster,
            rendering=rendering("p5"),
            name="dpd",
            bindings={**GIVEN, Binding.ROUTER_IMAGE: "router:latest"},
        )


def test_a_name_that_helm_would_refuse_is_refused_when_the_stack_is_made(tmp_path: Path) -> None:
    stack, cluster = _stack(tmp_path)
    with pytest.raises(ValueError, match="54 characters, limit 53"):
        Release(stack, "Release", cluster=cluster, rendering=rendering("p5"), name="a" * 54, bindings=GIVEN)


def test_a_change_of_any_object_is_another_chart(tmp_path: Path) -> None:
    hashes = set()
    for name, profile in (
        ("p5", Profile.SELF_MANAGED),
        ("p5", Profile.BASELINE),
        ("land", Profile.SELF_MANAGED),
    ):
        stack, cluster = _stack(tmp_path / f"{name}-{profile}")
        release = Release(
            stack, "Release", cluster=cluster, rendering=rendering(name, profile), name="dpd", bindings=GIVEN
        )
        hashes.add(release.asset_hash)
    assert len(hashes) == 3
