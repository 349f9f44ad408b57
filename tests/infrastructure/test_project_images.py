"""Images that the account builds or copies: repositories, rights, digests, and what makes a build run again."""

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from hyperpod_dpd.builds import BuildProject, BuildRun, BuildRunner, BuildWait
from hyperpod_dpd.derive.builds import BuildMachine, builds
from hyperpod_dpd.images import ProjectImages, PublicImageMirror
from hyperpod_dpd.images.context import excluded, sources_of, stage
from hyperpod_dpd.security.logs import logs_key
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.spec import Deployment, ExistingCluster, Images, S3Source
from tests.support.deployments import ROOT, changed, ready
from tests.support.synth import READY, ready_synthesized
from tests.support.template import app, only, resources, synthesized

RETAIN = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
DIGEST = "@sha256:" + "a" * 64
GIVEN = Images(
    source="given",
    worker=f"registry.example/worker{DIGEST}",
    router=f"registry.example/router{DIGEST}",
    proof=f"registry.example/proof{DIGEST}",
    benchmark=f"registry.example/benchmark{DIGEST}",
)


class _Stack(cdk.Stack):
    def __init__(self, deployment: Deployment, sources: Path = ROOT) -> None:
        super().__init__(app(), "Platform", env=cdk.Environment(region=deployment.region))
        key = logs_key(self, "LogsKey", removal_policy=RETAIN)
        builds = BuildRunner(self, "Builds", log_key=key)
        self.images = ProjectImages(self, "Images", deployment=deployment, builds=builds, sources=sources)
        if deployment.platform.images.mirror_public_images:
            self.mirror = PublicImageMirror(
                self, "Mirror", deployment=deployment, builds=builds, sources=sources
            )


@cache
def _synthesized() -> tuple[_Stack, Any]:
    stack = _Stack(changed(ready(), platform__images__mirror_public_images=True))
    return stack, synthesized(stack)


def _images(template: Any) -> dict[str, Any]:
    """Environments of the image builds by image."""
    return {
        body["Properties"]["Environment"]["IMAGE"]: body["Properties"]["Environment"]
        for body in resources(template, "Custom::DpdImage").values()
    }


def _repositories(template: Any) -> dict[str, Any]:
    """Repository of every image build, with its registry."""
    return {name: environment["REPOSITORY"] for name, environment in _images(template).items()}


def test_every_image_that_runs_is_built_into_a_repository_that_outlives_the_stack() -> None:
    _, template = _synthesized()
    assert set(_images(template)) == {"worker", "router", "proof", "benchmark"}
    # a stack that is rolled back would leave its repositories behind, and build everything again into others
    assert resources(template, "AWS::ECR::Repository") == {}


def test_another_deployment_of_the_account_asks_for_the_same_images_under_the_same_names() -> None:
    _, template = _synthesized()
    other = synthesized(_Stack(changed(ready("llama-3.3-70b-p5en"), region="us-east-1")))
    assert _repositories(template) == _repositories(other)
    tags = [{name: each["TAG"] for name, each in _images(one).items()} for one in (template, other)]
    assert tags[0] == tags[1]


def test_a_binding_is_the_digest_that_the_build_has_signalled() -> None:
    stack, template = _synthesized()
    for binding in (
        Binding.WORKER_IMAGE,
        Binding.ROUTER_IMAGE,
        Binding.PROOF_IMAGE,
        Binding.BENCHMARK_IMAGE,
    ):
        index, split = stack.resolve(stack.images.bindings[binding])["Fn::Select"]
        quote, data = split["Fn::Split"]
        name, attribute = data["Fn::GetAtt"]
        assert attribute == "Data"
        assert name in resources(template, "AWS::CloudFormation::WaitCondition")
        # what CloudFormation makes of one signal (user guide, wait conditions)
        text = '{"images:0b9c":"123456789012.dkr.ecr.us-east-1.amazonaws.com/r@sha256:1"}'
        assert text.split(quote)[int(index)] == "123456789012.dkr.ecr.us-east-1.amazonaws.com/r@sha256:1"


def test_the_deployment_is_ready_once_every_build_has_signalled() -> None:
    stack, _ = _synthesized()
    after = cdk.CfnResource(cdk.Stack(app(), "S"), "After", type="AWS::SNS::Topic")
    after.node.add_dependency(stack.images.ready)
    needed = {type(need) for need in stack.images.node.find_all()}
    assert cdk.CfnWaitCondition in needed
    assert stack.images in after.node.dependencies


def test_a_build_may_push_to_its_own_repository_only() -> None:
    _, template = _synthesized()
    (policy,) = [
        body
        for key, body in resources(template, "AWS::IAM::Policy").items()
        if key.startswith("ImagesRouterBuild")
    ]
    pushes = [
        statement
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "ecr:PutImage" in statement["Action"]
    ]
    (resource,) = [json.dumps(statement["Resource"]) for statement in pushes]
    assert resource.endswith(':repository/hyperpod-dpd/router"]]}')
    assert "/hyperpod-dpd/router" in json.dumps(_repositories(template)["router"])


def test_a_build_has_docker_and_the_disk_that_its_image_needs() -> None:
    _, template = _synthesized()
    projects = {
        key: body["Properties"]["Environment"]
        for key, body in resources(template, "AWS::CodeBuild::Project").items()
    }
    for name, environment in projects.items():
        assert environment["PrivilegedMode"] is True
        # 64 GB of disk below LARGE (CodeBuild user guide, compute types): the worker's image does not fit
        assert ("LARGE" in environment["ComputeType"]) is ("Worker" in name)


def test_images_that_are_given_are_neither_built_nor_stored() -> None:
    stack = _Stack(changed(ready(), platform__images=GIVEN))
    template = synthesized(stack)
    assert resources(template, "Custom::DpdImage") == {}
    assert resources(template, "AWS::ECR::Repository") == {}
    assert stack.images.bindings == {
        Binding.WORKER_IMAGE: GIVEN.worker,
        Binding.ROUTER_IMAGE: GIVEN.router,
        Binding.PROOF_IMAGE: GIVEN.proof,
        Binding.BENCHMARK_IMAGE: GIVEN.benchmark,
    }


def test_the_operators_engine_and_router_are_not_built() -> None:
    template = synthesized(_Stack(changed(ready(), serving__backend="operator")))
    assert set(_images(template)) == {"proof", "benchmark"}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of what images are built from, free to change."""
    folder = tmp_path / "repository"
    for name in ("worker", "router", "proof", "benchmark"):
        for path in sources_of(name, ROOT):
            if not (folder / path).exists():
                stage([path], ROOT, folder)
    for extra in (".dockerignore", "images/mirror.sh", "images/mirror.yml", "images/repository.sh"):
        shutil.copy2(ROOT / extra, folder / extra)
    return folder


def _tags(sources: Path) -> tuple[dict[str, str], str]:
    stack = _Stack(ready(), sources)
    environments = _images(synthesized(stack))
    return {name: environment["TAG"] for name, environment in environments.items()}, stack.images.revision


@pytest.mark.parametrize(
    ("path", "rebuilt"),
    [
        ("router/dpd_router/app.py", {"router"}),
        ("images/worker/check.py", {"worker"}),
        ("images/benchmark/requirements.txt", {"benchmark"}),
        ("images/proof/requirements.txt", {"proof"}),
        ("images/build.sh", {"worker", "router", "proof", "benchmark"}),
        ("images/repository.sh", {"worker", "router", "proof", "benchmark"}),
    ],
)
def test_only_images_whose_files_changed_are_built_again(sources: Path, path: str, rebuilt: set[str]) -> None:
    before, revision = _tags(sources)
    with (sources / path).open("a", encoding="utf-8") as opened:
        opened.write("\n# changed\n")
    after, changed_revision = _tags(sources)
    assert {name for name in before if before[name] != after[name]} == rebuilt
    assert changed_revision != revision


def test_files_that_no_builder_sees_build_nothing(sources: Path) -> None:
    before = _tags(sources)
    (sources / "router/simulator").mkdir(exist_ok=True)
    (sources / "router/simulator/new.py").write_text("x = 1\n", encoding="utf-8")
    (sources / "images/README.md").write_text("changed\n", encoding="utf-8")
    assert _tags(sources) == before


def test_what_is_uploaded_is_what_the_dockerfile_copies(sources: Path) -> None:
    assert "router/simulator/" in excluded(sources)
    assert sources_of("router", ROOT) == (
        "LICENSE",
        "images/build.sh",
        "images/buildspec.yml",
        "images/repository.sh",
        "images/router/Dockerfile",
        "images/router/requirements.txt",
        "requirements/bootstrap.txt",
        "router",
    )
    stack = _Stack(ready(), sources)
    directory = Path(stack.node.root.synth().directory)  # type: ignore[attr-defined]
    (uploaded,) = [folder for folder in directory.glob("asset.*") if (folder / "images/router").is_dir()]
    assert (uploaded / "router/dpd_router/app.py").is_file()
    assert not (uploaded / "router/simulator").exists()
    # CodeBuild calls it by its path
    assert (uploaded / "images/build.sh").stat().st_mode & 0o111


def test_an_image_without_a_dockerfile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="Dockerfile"):
        _Stack(ready(), tmp_path)


def test_the_mirror_copies_what_pods_pull_and_charts_that_are_installed() -> None:
    stack, template = _synthesized()
    environment = only(template, "Custom::DpdImageMirror")[1]["Properties"]["Environment"]
    images = environment["MIRROR_IMAGES"].split()
    assert "public.ecr.aws/aws-observability/aws-otel-collector:v0.48.0" in images
    assert all("." in image.partition("/")[0] for image in images)
    assert environment["MIRROR_CHARTS"].startswith("https://")
    assert "external-secrets-2.9.0.tgz=" in environment["MIRROR_CHARTS"]
    assert stack.resolve(stack.mirror.bindings[Binding.MIRROR_REGISTRY]) == environment["MIRROR_REGISTRY"]


def test_the_mirror_writes_below_its_prefix_only() -> None:
    _, template = _synthesized()
    (policy,) = [
        body for key, body in resources(template, "AWS::IAM::Policy").items() if key.startswith("MirrorBuild")
    ]
    created = [
        json.dumps(statement["Resource"])
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "ecr:CreateRepository" in statement["Action"]
    ]
    assert len(created) == 1
    assert ":repository/mirror/*" in created[0]


def test_a_mirror_that_nobody_asked_for_is_refused() -> None:
    stack = cdk.Stack(app(), "S", env=cdk.Environment(region="us-east-1"))
    key = logs_key(stack, "LogsKey", removal_policy=RETAIN)
    with pytest.raises(ValueError, match="mirror_public_images: false"):
        PublicImageMirror(
            stack,
            "Mirror",
            deployment=ready(),
            builds=BuildRunner(stack, "Builds", log_key=key),
            sources=ROOT,
        )


@pytest.mark.parametrize("name", READY)
def test_the_builds_that_preflight_counts_are_those_of_the_stacks(name: str) -> None:
    projects = [
        body["Properties"]["Environment"]["ComputeType"]
        for template in ready_synthesized(name).templates.values()
        for body in template["Resources"].values()
        if body["Type"] == "AWS::CodeBuild::Project"
    ]
    assert sorted(projects) == sorted(builds(ready(name)).values())


def test_builds_of_a_guest_with_given_images_and_a_mirror() -> None:
    guest = changed(
        ready(),
        cluster__existing=ExistingCluster(eks_name="theirs", hyperpod_name="theirs"),
        platform__images=replace(GIVEN, mirror_public_images=True),
        model__source=S3Source(bucket="weights", prefix="llama"),
    )
    assert builds(guest) == {"the mirror of public images": BuildMachine.SMALL}


def _project(minutes: int) -> tuple[cdk.Stack, BuildRunner, BuildProject]:
    stack = cdk.Stack(app(), "S", env=cdk.Environment(region="us-east-1"))
    key = logs_key(stack, "LogsKey", removal_policy=RETAIN)
    runner = BuildRunner(stack, "Builds", log_key=key)
    source = cdk.aws_s3_assets.Asset(stack, "Source", path=str(ROOT / "images"))
    project = BuildProject(
        stack,
        "Build",
        description="a build",
        source=source,
        build_logs=runner.build_logs,
        timeout_minutes=minutes,
        machine=BuildMachine.SMALL,
    )
    return stack, runner, project


def test_a_build_that_outlasts_an_answer_is_refused_without_a_wait() -> None:
    stack, runner, project = _project(41)
    with pytest.raises(ValueError, match="given 41 minutes, with queue and margin 61, limit 60"):
        BuildRun(
            stack,
            "Run",
            runner=runner,
            project=project,
            resource_type="Custom::It",
            physical_id="it",
            environment={},
        )


def test_a_build_that_outlasts_a_wait_is_refused() -> None:
    stack, runner, project = _project(701)
    with pytest.raises(ValueError, match="721 minutes, limit 720"):
        BuildRun(
            stack,
            "Run",
            runner=runner,
            project=project,
            resource_type="Custom::It",
            physical_id="it",
            environment={},
            wait=BuildWait(stack, "Wait"),
        )


def test_a_wait_takes_one_result() -> None:
    stack, runner, project = _project(10)
    with pytest.raises(ValueError, match="takes one result: given `A`, `B`"):
        BuildRun(
            stack,
            "Run",
            runner=runner,
            project=project,
            resource_type="Custom::It",
            physical_id="it",
            environment={},
            exports=["A", "B"],
            wait=BuildWait(stack, "Wait"),
        )
