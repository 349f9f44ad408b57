"""Every example runs, and makes what its first line promises."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import aws_cdk as cdk
import pytest
import yaml

from hyperpod_dpd import TemplateRules, load
from tests.support.deployments import ROOT, changed
from tests.support.template import app, only, resources, synthesized, tags

_FOLDER = ROOT / "examples"
_PROGRAMS = sorted(_FOLDER.rglob("*.py"))


def _example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{Path(name).stem}", _FOLDER / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("program", _PROGRAMS, ids=lambda path: path.stem)
def test_an_example_is_listed_tested_and_uses_public_names_only(program: Path) -> None:
    listed = (_FOLDER / "README.md").read_text(encoding="utf-8")
    place = program.relative_to(_FOLDER)
    assert f"({place.parts[0]}{'/' if len(place.parts) > 1 else ''})" in listed
    assert f'"{place}"' in Path(__file__).read_text(encoding="utf-8")
    text = program.read_text(encoding="utf-8")
    assert re.findall(r"(?:from|import) (hyperpod_dpd\.\S+)", text) == []
    assert "from hyperpod_dpd import" in text


def test_custom_rule_says_what_the_page_shows() -> None:
    # in a process of its own: a rule that is declared once stays in the registry
    program = _FOLDER / "custom_rule.py"
    done = subprocess.run(
        [sys.executable, str(program)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    shown = re.search(
        r"\$ python examples/(custom_rule.py)\n(.+)\n```",
        (_FOLDER / "README.md").read_text(encoding="utf-8"),
    )
    assert shown is not None
    assert done.stdout == f"{shown[2]}\n"
    assert done.returncode == 1


def test_the_group_lets_its_members_and_the_jump_host_in() -> None:
    stack = _example("efa_security_group.py").MyNetwork(app(), "network")
    template = synthesized(stack)
    itself = [
        rule["Properties"]
        for rule in resources(template, "AWS::EC2::SecurityGroupEgress").values()
        if rule["Properties"].get("DestinationSecurityGroupId") == rule["Properties"]["GroupId"]
    ]
    assert [rule["IpProtocol"] for rule in itself] == ["-1"]
    ports = {
        rule["Properties"].get("FromPort")
        for rule in resources(template, "AWS::EC2::SecurityGroupIngress").values()
    }
    assert 22 in ports


def test_an_existing_cluster_gets_a_release_and_nothing_of_it_is_made() -> None:
    stack = _example("existing_cluster.py").Serving(app(), "serving")
    template = synthesized(stack)
    _, release = only(template, "Custom::AWSCDK-EKS-HelmChart")
    assert release["Properties"]["Release"] == "qwen"
    assert release["Properties"]["ClusterName"] == "llama"
    identity, association = only(template, "AWS::EKS::PodIdentityAssociation")
    assert identity in release["DependsOn"]
    assert association["Properties"]["Namespace"] == "qwen-workers"
    assert resources(template, "AWS::CloudFormation::WaitCondition")
    kinds = {body["Type"] for body in template["Resources"].values()}
    assert kinds.isdisjoint(
        {"AWS::EKS::Cluster", "AWS::SageMaker::Cluster", "AWS::EC2::VPC", "AWS::S3::Bucket"}
    )


def test_manifests_are_bound_and_carry_a_chart_of_the_reader(tmp_path: Path) -> None:
    _example("manifests_only.py").main(tmp_path)
    texts = [file.read_text(encoding="utf-8") for file in tmp_path.glob("*.yaml")]
    objects = [entry for text in texts for entry in yaml.safe_load_all(text)]
    assert not any("${dpd:" in text for text in texts)
    names = {(entry["kind"], entry["metadata"]["name"]) for entry in objects}
    assert {("Deployment", "prefill"), ("Deployment", "decode"), ("Deployment", "router")} <= names
    assert any(entry["kind"] == "ConfigMap" and "on-call" in entry["data"] for entry in objects)


def test_two_models_have_namespaces_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    module = _example("two_models/two_models.py")
    assert module.main() == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["llama: llama-system, llama-workers", "qwen: qwen-system, qwen-workers"]
    assert re.fullmatch(r"the cluster of both: \d+\.\d\d USD an hour at list price", said[2])


def test_a_guest_that_wants_other_nodes_than_the_owner_has_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = _example("two_models/two_models.py")
    for name in ("llama.yaml", "qwen.yaml"):
        text = (_FOLDER / "two_models" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(
            text.replace(
                "qwen-decode, role: decode, instance_type: ml.p5en",
                "qwen-decode, role: decode, instance_type: ml.p5",
            )
            if name == "qwen.yaml"
            else text,
            encoding="utf-8",
        )
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    with pytest.raises(module.MissingGroupError, match="`qwen-decode`"):
        module.read()


@pytest.fixture(scope="module")
def team() -> tuple[ModuleType, Mapping[str, Any]]:
    module = _example("platform_team.py")
    application = app()
    cdk.Validations.of(application).add_plugins(TemplateRules())
    stack = module.Chat(application, "chat", deployment=load(module.DEPLOYMENT).deployment)
    return module, synthesized(stack)


def test_conventions_of_the_platform_team_hold(team: tuple[ModuleType, Mapping[str, Any]]) -> None:
    _, template = team
    _, eks = only(template, "AWS::EKS::Cluster")
    assert eks["Properties"]["ResourcesVpcConfig"]["EndpointPublicAccess"] is False
    _, vpc = only(template, "AWS::EC2::VPC")
    assert tags(vpc)["cost-centre"] == "4711"
    _, hyperpod = only(template, "AWS::SageMaker::Cluster")
    assert tags(hyperpod) == {}
    told = [
        target["Arn"]
        for rule in resources(template, "AWS::Events::Rule").values()
        for target in rule["Properties"]["Targets"]
    ]
    assert "arn:aws:sns:us-east-1:123456789012:on-call" in told


def test_a_product_team_s_mistake_fails_their_synthesis_with_the_rule(
    team: tuple[ModuleType, Mapping[str, Any]],
) -> None:
    module, _ = team
    application = app()
    wrong = changed(load(module.DEPLOYMENT).deployment, serving__tensor_parallel=3)
    module.Chat(application, "chat", deployment=wrong)
    with pytest.raises(RuntimeError, match="DPD-SRV-002"):
        application.synth()
