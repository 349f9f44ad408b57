"""Where images come from once public ones are mirrored."""

from collections.abc import Iterator
from typing import Any

import pytest

from hyperpod_dpd.catalog.cluster_charts import EXTERNAL_SECRETS, KEDA, LOAD_BALANCER_CONTROLLER
from hyperpod_dpd.catalog.public_images import COLLECTOR, DCGM_EXPORTER
from hyperpod_dpd.derive.mirror import (
    MIRROR_PREFIX,
    cluster_charts,
    in_account,
    is_public,
    public_images,
    qualified,
)
from hyperpod_dpd.lint.image import engine_versions
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.profile import profiles_of
from hyperpod_dpd.serving.render import Rendering, render, render_platform
from hyperpod_dpd.spec import Deployment, ExistingCluster
from tests.support.deployments import changed, ready

DIGEST = "@sha256:" + "a" * 64
ENGINE = "public.ecr.aws/deep-learning-containers/vllm:server-hyperpod-cuda-v1.1"
REGISTRY = Binding.MIRROR_REGISTRY.placeholder


def _mirrored(**changes: Any) -> Deployment:
    return changed(ready(), platform__images__mirror_public_images=True, **changes)


DEPLOYMENTS = {
    "built": _mirrored(),
    "aws-engine": _mirrored(serving__engine__name="hyperpod-v1.1"),
    "own-engine": _mirrored(serving__engine__image=f"registry.example/vllm:0.25.1{DIGEST}"),
    "given": _mirrored(
        platform__images__worker=f"ghcr.io/mine/worker{DIGEST}",
        platform__images__router=f"ghcr.io/mine/router{DIGEST}",
    ),
    "exporters": _mirrored(platform__exporters="manifests"),
    "operator": _mirrored(serving__backend="operator"),
}


def _renderings(deployment: Deployment) -> Iterator[Rendering]:
    yield render_platform(deployment)
    for profile in profiles_of(deployment):
        yield render(deployment, profile)


def _images(data: Any) -> Iterator[str]:
    match data:
        case {"image": str(image), **rest}:
            yield image
            yield from _images(rest)
        case dict():
            for value in data.values():
                yield from _images(value)
        case list():
            for item in data:
                yield from _images(item)


def _rendered_images(deployment: Deployment) -> set[str]:
    return {
        image
        for rendering in _renderings(deployment)
        for file in rendering.files
        for image in _images(list(file.objects))
    }


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_no_pod_of_a_mirrored_deployment_pulls_from_a_public_registry(name: str) -> None:
    deployment = DEPLOYMENTS[name]
    images = _rendered_images(deployment)
    copies = {image for image in images if image.startswith(f"{REGISTRY}/")}
    outside = {image for image in images - copies if not image.startswith("${dpd:") and is_public(image)}
    assert outside == set()
    # and every copy that is pulled is one that is made
    made = {in_account(image, deployment, registry=REGISTRY) for image in public_images(deployment)}
    assert copies <= made
    assert copies


def test_without_a_mirror_images_keep_their_names() -> None:
    images = _rendered_images(changed(ready(), platform__exporters="manifests"))
    assert {COLLECTOR.reference, DCGM_EXPORTER.reference} <= images
    assert not [image for image in images if MIRROR_PREFIX in image]


@pytest.mark.parametrize(
    ("image", "copy"),
    [
        ("nvcr.io/nvidia/k8s/dcgm-exporter:4.6", "R/mirror/nvcr.io/nvidia/k8s/dcgm-exporter:4.6"),
        (f"ghcr.io/a/b:1{DIGEST}", f"R/mirror/ghcr.io/a/b{DIGEST}"),
        (f"ghcr.io/a/b{DIGEST}", f"R/mirror/ghcr.io/a/b{DIGEST}"),
        ("lmcache/vllm-openai:v0.4.3", "R/mirror/docker.io/lmcache/vllm-openai:v0.4.3"),
        ("python:3.12", "R/mirror/docker.io/library/python:3.12"),
        (
            "602401143452.dkr.ecr.us-east-1.amazonaws.com/hyperpod/efa_exporter:1.0.0",
            "602401143452.dkr.ecr.us-east-1.amazonaws.com/hyperpod/efa_exporter:1.0.0",
        ),
    ],
)
def test_a_copy_keeps_registry_path_and_version_of_its_original(image: str, copy: str) -> None:
    assert in_account(image, DEPLOYMENTS["built"], registry="R") == copy
    assert in_account(image, ready(), registry="R") == image


def test_images_of_two_registries_with_one_path_have_two_copies() -> None:
    copies = {
        in_account(f"{host}/a/b:1", DEPLOYMENTS["built"], registry="R") for host in ("ghcr.io", "quay.io")
    }
    assert len(copies) == 2


def test_a_name_without_a_registry_is_docker_hubs() -> None:
    assert qualified("localhost/a:1") == "localhost/a:1"
    assert qualified("registry:5000/a:1") == "registry:5000/a:1"
    assert qualified("a/b:1") == "docker.io/a/b:1"


def test_a_copy_of_a_known_engine_tells_its_versions_as_the_original_does() -> None:
    copy = in_account(ENGINE, DEPLOYMENTS["built"], registry="123456789012.dkr.ecr.us-east-1.amazonaws.com")
    original, copied = (
        engine_versions(Node(data=image, file="it.yaml", line=1, path="image")) for image in (ENGINE, copy)
    )
    assert (copied.vllm, copied.lmcache, copied.told) == (original.vllm, original.lmcache, original.told)
    assert copied.told == {"vllm", "lmcache"}


def test_two_controllers_of_one_kind_are_never_installed() -> None:
    with_addon = cluster_charts(ready())
    assert with_addon == (EXTERNAL_SECRETS,)
    alone = changed(
        ready(),
        platform__inference_operator=None,
        platform__autoscaling=True,
        platform__load_balancer_controller=True,
    )
    assert cluster_charts(alone) == (EXTERNAL_SECRETS, KEDA, LOAD_BALANCER_CONTROLLER)
    assert cluster_charts(changed(alone, platform__autoscaling=False)) == (
        EXTERNAL_SECRETS,
        LOAD_BALANCER_CONTROLLER,
    )


def test_a_cluster_of_somebody_else_keeps_its_own_charts_and_scrapers() -> None:
    deployment = _mirrored(
        cluster__existing=ExistingCluster(eks_name="theirs", hyperpod_name="theirs"),
        serving__engine__name="hyperpod-v1.1",
    )
    assert cluster_charts(deployment) == ()
    assert public_images(deployment) == (ENGINE,)
