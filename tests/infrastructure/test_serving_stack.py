"""The serving stack: what is installed in which order, what it says, and that it is what was reviewed."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.serving.bindings import bind, read_values
from hyperpod_dpd.spec import Deployment, ExistingCluster, LoadBalancer
from tests.support.deployments import ROOT, changed, ready
from tests.support.helm import by_identity, parsed, render_chart
from tests.support.manifests import BOUND
from tests.support.synth import application

RENDERED = ROOT / "manifests" / "rendered"
CHART = "Custom::AWSCDK-EKS-HelmChart"
_TOKEN = "<token>"
FILLED = {binding.name: value for binding, value in read_values(BOUND).items()}


class Serving:
    """The serving stack of a deployment, synthesized, with the folder of its assets."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        app, stacks = application(folder, deployment)
        assembly = app.synth()
        self.folder = folder
        self.template: Mapping[str, Any] = assembly.get_stack_by_name(stacks.serving.stack_name).template
        self.parts = tuple(stacks.by_part)

    @property
    def resources(self) -> Mapping[str, Any]:
        resources: Mapping[str, Any] = self.template["Resources"]
        return resources

    def find(self, prefix: str, kind: str) -> str:
        """Return the only logical id that starts with `prefix` and has the type `kind`."""
        (found,) = [
            name for name, body in self.resources.items() if name.startswith(prefix) and body["Type"] == kind
        ]
        return found

    def needs(self, logical_id: str) -> set[str]:
        """Return everything that exists before `logical_id`, whoever of them says so."""
        found: set[str] = set()
        pending = [logical_id]
        while pending:
            body = self.resources[pending.pop()]
            direct = body.get("DependsOn", [])
            named = {direct} if isinstance(direct, str) else set(direct)
            named |= {name for name in _references(body) if name in self.resources}
            pending += named - found
            found |= named
        return found


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "Ref" in node:
            yield node["Ref"]
        if "Fn::GetAtt" in node:
            yield node["Fn::GetAtt"][0]
        for below in node.values():
            yield from _references(below)
    elif isinstance(node, list):
        for below in node:
            yield from _references(below)


@cache
def _deployments() -> Mapping[str, Deployment]:
    p5 = ready()
    return {
        "self-managed": p5,
        "operator": on_backend(p5, "operator"),
        "balanced": changed(
            p5, routing__load_balancer=LoadBalancer(certificate_arn=BOUND["CERTIFICATE_ARN"])
        ),
        "shared": changed(
            p5, cluster__existing=ExistingCluster(eks_name="theirs", hyperpod_name="theirs-hp")
        ),
        "published": changed(
            p5,
            cluster__existing=ExistingCluster(
                eks_name="theirs", hyperpod_name="theirs-hp", parameter_prefix="/hyperpod-dpd/theirs"
            ),
        ),
    }


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Serving]:
    return {
        name: Serving(deployment, tmp_path_factory.mktemp(name))
        for name, deployment in _deployments().items()
    }


@pytest.mark.parametrize("name", ["self-managed", "operator", "shared"])
def test_release_is_waited_for_and_then_proved(serving: Mapping[str, Serving], name: str) -> None:
    stack = serving[name]
    release, proof = stack.find("Release", CHART), stack.find("Proof", CHART)
    runs = stack.find("ReleaseRuns", "AWS::CloudFormation::WaitCondition")
    assert release in stack.needs(runs)
    assert runs in stack.needs(proof)
    assert proof in stack.needs(stack.find("ProofRuns", "AWS::CloudFormation::WaitCondition"))


@pytest.mark.parametrize("name", ["self-managed", "operator", "shared"])
def test_namespaces_are_gone_before_the_stack_is(serving: Mapping[str, Serving], name: str) -> None:
    stack = serving[name]
    gone = stack.find("Gone", "Custom::DpdGone")
    # deleted in the opposite order: the release first, then the wait for its namespaces
    assert gone in stack.needs(stack.find("Release", CHART))
    assert set(stack.resources[gone]["Properties"]["Namespaces"]) == {
        "llama-3-3-70b-p5-system",
        "llama-3-3-70b-p5-workers",
    }


def _filled(values: Any) -> Mapping[str, Any]:
    """Return the values of a release, with the value of the binding wherever CloudFormation puts one."""
    pieces = [values] if isinstance(values, str) else values["Fn::Join"][1]
    given = json.loads("".join(piece if isinstance(piece, str) else _TOKEN for piece in pieces))
    return {
        "bindings": {
            name: FILLED[name] if _TOKEN in text else text for name, text in given["bindings"].items()
        }
    }


@pytest.mark.parametrize("name", ["self-managed", "operator"])
def test_chart_with_the_values_of_the_stack_is_what_was_reviewed(
    serving: Mapping[str, Serving], name: str
) -> None:
    stack = serving[name]
    properties = stack.resources[stack.find("Release", CHART)]["Properties"]
    url = json.dumps(properties["ChartAssetURL"])
    (asset,) = [path for path in stack.folder.glob("asset.*") if path.name.removeprefix("asset.") in url]
    objects = render_chart(asset, _filled(properties["Values"]))
    reviewed = [
        entry
        for path in sorted((RENDERED / "llama-3-3-70b-p5" / name).glob("*.yaml"))
        if path.name != "kustomization.yaml"
        for entry in parsed(bind(path.read_text(encoding="utf-8"), read_values(BOUND)))
    ]
    assert by_identity(objects) == by_identity(reviewed)


def test_one_word_changes_the_backend_of_a_new_cluster(serving: Mapping[str, Serving]) -> None:
    assert serving["operator"].parts == serving["self-managed"].parts
    assert len(serving["operator"].parts) == 5
    for name, word in (("self-managed", "rollout"), ("operator", "resource-state")):
        stack = serving[name]
        rule = stack.resources[stack.find("ReleaseRuns", "AWS::Events::Rule")]
        assert word in json.dumps(rule["Properties"]["Targets"])


@pytest.mark.parametrize("name", ["shared", "published"])
def test_a_second_deployment_brings_platform_and_serving_only(
    serving: Mapping[str, Serving], name: str
) -> None:
    assert serving[name].parts == ("platform", "serving")
    assert "--name theirs" in serving[name].template["Outputs"]["KubeconfigCommand"]["Value"]


def test_outputs_say_how_the_endpoint_is_reached(serving: Mapping[str, Serving]) -> None:
    outputs = serving["self-managed"].template["Outputs"]
    assert outputs["InClusterUrl"]["Value"].endswith(".svc.cluster.local:8081/v1")
    assert {"ForwardCommand", "TryCommand", "KubeconfigCommand"} <= outputs.keys()
    assert {"BindWorkerImage", "BindRouterImage", "BindModelBucket"} <= outputs.keys()
    # what `dpd bind` puts into the proof and the benchmark
    assert {
        "BindProofImage",
        "BindAmpWorkspaceUrl",
        "BindBenchmarkImage",
        "BindResultsBucket",
    } <= outputs.keys()
    assert "Endpoint" not in outputs
    assert serving["operator"].template["Outputs"]["Endpoint"]["Value"] == "llama-3-3-70b-p5"


def test_address_of_the_load_balancer_is_read_when_the_workers_run(serving: Mapping[str, Serving]) -> None:
    stack = serving["balanced"]
    host = stack.find("EndpointHost", "Custom::AWSCDK-EKS-KubernetesObjectValue")
    assert stack.find("ReleaseRuns", "AWS::CloudFormation::WaitCondition") in stack.needs(host)
    assert host in json.dumps(stack.template["Outputs"]["Endpoint"]["Value"])
