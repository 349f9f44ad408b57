"""Which builds a deployment makes CodeBuild run, and on which machines."""

from enum import StrEnum
from typing import Final

from hyperpod_dpd.derive.images import images_built
from hyperpod_dpd.derive.model_store import import_origin
from hyperpod_dpd.spec import Deployment


class BuildMachine(StrEnum):
    """Size of a Linux build machine, as CodeBuild calls it."""

    SMALL = "BUILD_GENERAL1_SMALL"
    MEDIUM = "BUILD_GENERAL1_MEDIUM"
    LARGE = "BUILD_GENERAL1_LARGE"


IMAGE_MACHINES: Final = {
    # 128 GB of disk: the worker's base image and its packages take half of it while layers are packed
    "worker": BuildMachine.LARGE,
    "router": BuildMachine.SMALL,
    "proof": BuildMachine.SMALL,
    "benchmark": BuildMachine.MEDIUM,
}
IMPORT_MACHINE: Final = BuildMachine.LARGE
"""The eight files that travel at a time need its disk."""
CHART_MACHINE: Final = BuildMachine.SMALL
MIRROR_MACHINE: Final = BuildMachine.SMALL


def builds(deployment: Deployment) -> dict[str, BuildMachine]:
    """Return the machine of each build that deploying `deployment` starts, by what the build does.

    Raises:
        UnknownCatalogEntryError: `serving.engine.name` is not in the catalog.
        ValueError: a declared version is not numbers separated by dots.
    """
    found: dict[str, BuildMachine] = {}
    if deployment.cluster.existing is None:
        found["the dependencies chart"] = CHART_MACHINE
    for name in images_built(deployment):
        found[f"the image `{name}`"] = IMAGE_MACHINES[name]
    if deployment.platform.images.mirror_public_images:
        found["the mirror of public images"] = MIRROR_MACHINE
    if import_origin(deployment) is not None:
        found["the model's import"] = IMPORT_MACHINE
    return found
