"""What a change of the deployment file changes in the templates: only what is meant, and what `dpd diff` says."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]

from hyperpod_dpd.changes.compare import compare
from hyperpod_dpd.changes.consequences import Consequence
from hyperpod_dpd.spec import (
    Alerts,
    DependenciesChart,
    Deployment,
    Images,
    Removal,
    S3Source,
    Schedule,
    Spot,
    Taint,
)
from stacks.network import NetworkStack
from tests.support.deployments import EXISTING_VPC, changed, ready
from tests.support.manifests import BOUND
from tests.support.synth import KEY, Synthesized, synthesize
from tests.support.template import app, synthesized

_C = Consequence
_WAIT = {
    "AWS::CloudFormation::WaitCondition",
    "AWS::CloudFormation::WaitConditionHandle",
    "AWS::Events::Rule",
    "AWS::IAM::Policy",
    "AWS::Lambda::Permission",
    "Custom::DpdWait",
}
_CHART = "Custom::AWSCDK-EKS-HelmChart"
_ALERTS = "AWS::APS::RuleGroupsNamespace"
"""Alert rules know replicas, thresholds and promises: an object of their own, which nothing depends on."""


@cache
def _before() -> Deployment:
    """Return the default deployment with its images given, so that no file of the repository is part of it."""
    return changed(
        ready(),
        platform__images__source="given",
        platform__images__worker=BOUND["WORKER_IMAGE"],
        platform__images__router=BOUND["ROUTER_IMAGE"],
        platform__images__proof=BOUND["PROOF_IMAGE"],
        platform__images__benchmark=BOUND["BENCHMARK_IMAGE"],
    )


@cache
def _synthesized_before() -> Synthesized:
    return synthesize(_before())


def _touched(after: Deployment) -> dict[str, set[str]]:
    """Return the types of resources that CloudFormation creates, updates or deletes, by part.

    The proof is left out: another one runs after whatever it reads has changed.
    """
    found: dict[str, set[str]] = {}
    for part, template in synthesize(after).templates.items():
        old, new = (each["Resources"] for each in (_synthesized_before().templates[part], template))
        types = {
            (new.get(key) or old[key])["Type"]
            for key in {**old, **new}
            if _acted_on(old.get(key)) != _acted_on(new.get(key)) and not key.startswith("Proof")
        }
        if types:
            found[part] = types
    return found


def _acted_on(body: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return what CloudFormation updates a resource for: another order alone changes nothing."""
    return body and {name: value for name, value in body.items() if name != "DependsOn"}


# -- the changes that everybody makes ---------------------------------------------------------------------------------

_SMALL: Mapping[str, tuple[Mapping[str, Any], Mapping[str, set[str]]]] = {
    "replicas": (
        {"serving__prefill__replicas": 2},
        {"platform": {_ALERTS}, "serving": {_CHART, *_WAIT}},
    ),
    "router flag": (
        {"routing__threshold_tokens": 2048},
        {"platform": {_ALERTS}, "serving": {_CHART, *_WAIT}},
    ),
    "instance count": (
        {"hyperpod__instance_groups__1__count": 2},
        {"hyperpod": {"AWS::SageMaker::Cluster"}, "platform": _WAIT},
    ),
    "Kubernetes version": (
        {"cluster__kubernetes_version": "1.34"},
        {
            "cluster": {"AWS::EKS::Cluster", "AWS::EKS::Addon"},
            "platform": {_CHART},
            "serving": {_CHART, *_WAIT},
        },
    ),
}


@pytest.mark.parametrize("name", _SMALL)
def test_only_the_intended_resources_change(name: str) -> None:
    changes, expected = _SMALL[name]
    assert _touched(changed(_before(), **changes)) == expected


def test_another_model_bucket_changes_who_reads_it_and_nothing_before_the_platform() -> None:
    touched = _touched(changed(_before(), model__source=S3Source(bucket="other")))
    assert touched.keys() == {"platform", "serving"}
    assert touched["serving"] == {_CHART, *_WAIT}
    assert not touched["platform"] & {"AWS::EKS::Addon", "AWS::EKS::AccessEntry", "AWS::APS::Workspace"}


def test_no_change_changes_nothing() -> None:
    assert _touched(changed(_before(), acknowledge=())) == {}


# -- the rows about infrastructure in the table of consequences -------------------------------------------------------

_INFRASTRUCTURE: Mapping[str, Any] = {
    "network__egress": "closed",
    "network__flow_log_retention_days": 30,
    "cluster__kubernetes_version": "1.34",
    "cluster__endpoint_access": "private",
    "cluster__administrators": ("arn:aws:iam::123456789012:role/admin",),
    "cluster__system_nodes__count": 3,
    "cluster__addon_versions": {"vpc-cni": "v1.20.0-eksbuild.1"},
    "cluster__dependencies_chart": DependenciesChart(
        source="s3", s3_uri="s3://mine/dependencies.tar.gz", sha256="a" * 64
    ),
    "hyperpod__instance_groups__1__name": "others",
    "hyperpod__instance_groups__1__instance_type": "ml.p5en.48xlarge",
    "hyperpod__instance_groups__1__count": 2,
    "hyperpod__instance_groups__1__capacity": Spot(type="spot"),
    "hyperpod__instance_groups__1__taints": (Taint(key="a", effect="NoSchedule"),),
    "hyperpod__instance_groups__1__volume_gib": 600,
    "hyperpod__instance_groups__1__volumes_kms_key_arn": KEY,
    "hyperpod__instance_groups__1__deep_health_checks": (),
    "hyperpod__node_recovery": "none",
    "hyperpod__tiered_storage_memory_percent": 20,
    "model__source": S3Source(bucket="other"),
    "model__source__kms_key_arn": KEY,
    "platform__inference_operator": None,
    "platform__observability_addon": False,
    "platform__scraping": "none",
    "platform__exporters": "manifests",
    "platform__network_policies": "rendered-only",
    "platform__external_secrets": False,
    "platform__grafana": "self-hosted",
    "platform__images": Images(),
    "platform__alerts": Alerts(email_addresses=("a@example.com",)),
    "platform__nights_off": Schedule(stop_cron="cron(0 20 ? * * *)", start_cron="cron(0 7 ? * * *)"),
    "platform__monthly_budget_usd": 1000,
    "slo__ttft_p95_seconds": 1.0,
    "traffic__input_tokens": 8000,
    "removal": Removal(delete_data_on_destroy=True, confirm="llama-3-3-70b-p5"),
}
"""A change of each field that reaches a template."""

_PARTS: Mapping[Consequence, str] = {
    _C.NETWORK: "network",
    _C.EKS: "cluster",
    _C.SYSTEM_NODES: "cluster",
    _C.GROUPS: "hyperpod",
    _C.INSTANCE_TYPE: "hyperpod",
    _C.VOLUME_KEYS: "hyperpod",
    _C.NODES: "hyperpod",
    _C.NODE_SETTINGS: "hyperpod",
    _C.HYPERPOD: "hyperpod",
    _C.PLATFORM: "platform",
}
"""Part that a consequence is about; those that are not here are about Kubernetes objects, in the serving stack."""


@pytest.mark.parametrize("path", _INFRASTRUCTURE)
def test_table_of_consequences_says_which_stacks_change(path: str) -> None:
    after = changed(_before(), **{path: _INFRASTRUCTURE[path]})
    claimed = set(compare(_before(), after).grouped)
    touched = _touched(after)
    # alert rules follow what they are about, and the wait for nodes follows the nodes
    follows = {_ALERTS, *(_WAIT if "hyperpod" in touched else ())}
    parts = {part for part, types in touched.items() if part != "platform" or types - follows}
    if _C.RESOURCES in claimed:
        assert parts
        return
    wanted = {_PARTS[each] for each in claimed if each in _PARTS}
    # whether an object changes, and not only might, is held where manifests are compared
    may_be_touched = wanted | ({"serving"} if claimed - set(_PARTS) - {_C.PLAN, _C.BASELINE} else set())
    assert wanted <= parts <= may_be_touched


# -- create-only properties -------------------------------------------------------------------------------------------

_CREATE_ONLY: Mapping[str, Any] = {
    "network__gpu_zone_id": "use1-az4",
    "network__cidr": "10.200.0.0/16",
    "network__gpu_cidr": "10.2.0.0/16",
}


def _create_only(kind: str) -> set[str]:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    return {pointer.split("/")[2] for pointer in schema.get("createOnlyProperties", ())}


def _imported(synthesized: Synthesized) -> str:
    return str(list(synthesized.templates.values()))


@pytest.mark.parametrize("path", _CREATE_ONLY)
def test_a_replacement_is_refused_by_an_export_in_use_and_said_by_dpd_diff(path: str) -> None:
    after = changed(_before(), **{path: _CREATE_ONLY[path]})
    old = _synthesized_before().templates["network"]
    new = synthesize(after).templates["network"]
    replaced = {
        logical_id
        for logical_id, body in old["Resources"].items()
        if any(
            body["Properties"].get(name) != new["Resources"][logical_id]["Properties"].get(name)
            for name in _create_only(body["Type"])
        )
    }
    exported = {
        str(output["Value"]): output["Export"]["Name"]
        for output in old["Outputs"].values()
        if "Export" in output
    }
    users = _imported(_synthesized_before())
    held = {
        logical_id
        for logical_id in replaced
        for value, name in exported.items()
        if f"'{logical_id}'" in value and f"'Fn::ImportValue': '{name}'" in users
    }
    assert held, f"CloudFormation would replace {replaced} without a word"
    assert next(iter(compare(_before(), after).grouped)) is Consequence.REFUSED


def test_another_vpc_is_refused_by_an_export_in_use_and_said_by_dpd_diff() -> None:
    after = changed(_before(), network__existing=EXISTING_VPC)
    new = synthesized(NetworkStack(app(), f"{after.name}-network", deployment=after))
    old = _synthesized_before().templates["network"]
    # a network stack alone exports nothing: what the old one exports is gone, whatever the new one's ids are
    kept = old["Resources"].keys() & new["Resources"].keys()
    gone = {
        output["Export"]["Name"]
        for output in old["Outputs"].values()
        if "Export" in output and not any(f"'{logical_id}'" in str(output["Value"]) for logical_id in kept)
    }
    users = _imported(_synthesized_before())
    assert any(f"'Fn::ImportValue': '{name}'" in users for name in gone)
    grouped = compare(_before(), after).grouped
    assert [each.path for each in grouped[Consequence.REFUSED]] == ["network.existing"]


@pytest.mark.parametrize(
    ("kind", "part", "name"),
    [("AWS::EKS::Cluster", "cluster", "Name"), ("AWS::SageMaker::Cluster", "hyperpod", "ClusterName")],
)
def test_clusters_have_names_that_keep_cloudformation_from_replacing_them(
    kind: str, part: str, name: str
) -> None:
    # CloudFormation: a resource with a custom name cannot be replaced in an update
    assert name in _create_only(kind)
    assert _synthesized_before().only(part, kind)["Properties"][name] == _before().name


def test_another_cluster_name_is_a_second_cluster_and_dpd_diff_says_so() -> None:
    after = changed(_before(), hyperpod__cluster_name="other")
    assert "AWS::SageMaker::Cluster" in _touched(after)["hyperpod"]
    assert Consequence.SECOND_CLUSTER in compare(_before(), after).grouped
