"""Which of the project's own images a deployment runs, and which of them it builds."""

from typing import Final

from hyperpod_dpd.derive.engine import effective_engine
from hyperpod_dpd.spec import Deployment

PROJECT_IMAGES: Final = ("worker", "router", "proof", "benchmark")
"""Folders below `images/`, and the keys of `platform.images`."""

IMAGE_PREFIX: Final = "hyperpod-dpd"
"""What the names of the repositories of built images start with; deployments of one account share them."""


def images_run(deployment: Deployment) -> tuple[str, ...]:
    """Return the project's own images that pods or jobs of `deployment` run.

    Raises:
        UnknownCatalogEntryError: `serving.engine.name` is not in the catalog.
        ValueError: a declared version is not numbers separated by dots.
    """
    run = {
        "worker": effective_engine(deployment.serving).image is None,
        "router": deployment.serving.backend == "self-managed",
        "proof": True,
        "benchmark": True,
    }
    return tuple(name for name in PROJECT_IMAGES if run[name])


def images_built(deployment: Deployment) -> tuple[str, ...]:
    """Return the images that the account builds: those that are run and not given by digest.

    Raises:
        UnknownCatalogEntryError: `serving.engine.name` is not in the catalog.
        ValueError: a declared version is not numbers separated by dots.
    """
    images = deployment.platform.images
    if images.source == "given":
        return ()
    return tuple(name for name in images_run(deployment) if getattr(images, name) is None)
