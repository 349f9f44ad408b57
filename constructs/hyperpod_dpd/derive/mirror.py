"""Public images and charts that a deployment pulls, and what they are called once the account has copies of them."""

import re
from typing import Final

from hyperpod_dpd.catalog.cluster_charts import (
    EXTERNAL_SECRETS,
    KEDA,
    LOAD_BALANCER_CONTROLLER,
    ClusterChart,
)
from hyperpod_dpd.catalog.public_images import COLLECTOR, DCGM_EXPORTER
from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.derive.engine import effective_engine
from hyperpod_dpd.derive.images import PROJECT_IMAGES
from hyperpod_dpd.spec import Deployment

MIRROR_PREFIX: Final = "mirror"
"""What the names of the copies' repositories start with; deployments of one account share them."""

CHARTS_PREFIX: Final = f"{MIRROR_PREFIX}/charts"

_PRIVATE: Final = re.compile(r"[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?")
_DOCKER_HUB: Final = "docker.io"


def is_public(image: str) -> bool:
    """Whether `image` comes from a registry outside ECR, which a closed network does not reach."""
    return _PRIVATE.fullmatch(qualified(image).partition("/")[0]) is None


def qualified(image: str) -> str:
    """Return `image` with the name of its registry, which Docker Hub's images leave out."""
    first, slash, _ = image.partition("/")
    if slash and (":" in first or "." in first or first == "localhost"):
        return image
    return f"{_DOCKER_HUB}/{image}" if slash else f"{_DOCKER_HUB}/library/{image}"


def in_account(image: str, deployment: Deployment, *, registry: str) -> str:
    """Return what to pull for `image`: itself, or its copy in the account's `registry` (a token or binding is fine).

    The copy keeps registry and path of its original below `mirror/`, and its tag or digest.
    """
    if not deployment.platform.images.mirror_public_images or not is_public(image):
        return image
    name, at, digest = qualified(image).partition("@")
    if at:
        name = re.sub(r":[^:/]+$", "", name)
    return f"{registry}/{MIRROR_PREFIX}/{name}{at}{digest}"


def public_images(deployment: Deployment) -> tuple[str, ...]:
    """Return every public image that pods of the deployment, and of its platform, are made of, on either backend.

    Raises:
        UnknownCatalogEntryError: `serving.engine.name` is not in the catalog.
        ValueError: a declared version is not numbers separated by dots.
    """
    given = [getattr(deployment.platform.images, key) for key in PROJECT_IMAGES]
    # a profile of the other backend is rendered beside the deployment's own, to compare the two
    engines = [
        effective_engine(on_backend(deployment, "self-managed").serving).image,
        effective_engine(on_backend(deployment, "operator").serving).image,
    ]
    images = [*engines, *given, *_platform_images(deployment)]
    return tuple(dict.fromkeys(image for image in images if image is not None and is_public(image)))


def cluster_charts(deployment: Deployment) -> tuple[ClusterChart, ...]:
    """Return the public charts that the deployment's platform installs; a cluster of somebody else has its own."""
    platform = deployment.platform
    if deployment.cluster.existing is not None:
        return ()
    # the inference add-on brings its own KEDA and controller, and two of them would fight
    alone = platform.inference_operator is None
    wanted = (
        (EXTERNAL_SECRETS, platform.external_secrets),
        (KEDA, alone and platform.has_autoscaling),
        (LOAD_BALANCER_CONTROLLER, alone and platform.has_load_balancer_controller),
    )
    return tuple(chart for chart, installed in wanted if installed)


def _platform_images(deployment: Deployment) -> list[str]:
    if deployment.cluster.existing is not None:
        return []
    images = []
    if deployment.platform.scraping == "collector":
        images.append(COLLECTOR.reference)
    if deployment.platform.exporters == "manifests":
        images.append(DCGM_EXPORTER.reference)
    return images + [image for chart in cluster_charts(deployment) for image in chart.images]
