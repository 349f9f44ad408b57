"""DPD-SRV-315: the image has libfabric, hwloc and a recent EFA installer."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.engines import engines
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-315",
    severity=Severity.WARNING,
    title="the worker's image is one that is known to hold libfabric ≥ 1.21, hwloc and EFA installer ≥ 1.29.1",
    sources=(
        "awslabs/awsome-distributed-ai issue 203 (FI_EFA_SET_CUDA_SYNC_MEMOPS)",
        "nixl 1.5.1 wheel, run: LIBFABRIC is `NIXL_ERR_NOT_FOUND` without them",
    ),
    facts=("E15", "E16"),
)
def image_is_known(deployment: Deployment) -> Iterator[Problem]:
    """NIXL's wheel does not contain them: without them the backend is not found, and no hand-off ever works."""
    given = {
        "serving.engine.image": deployment.serving.engine.image,
        "platform.images.worker": deployment.platform.images.worker,
    }
    known = {row.image for row in engines()}
    for path, image in given.items():
        if image is not None and image not in known:
            yield Problem(
                path=path,
                says="it is not known what this image contains",
                given=f"`{image}`",
                fix="build it from `images/worker`, and acknowledge the warning with the digest you built",
            )
