"""DPD-DATA-017: an image that is mirrored names a version."""

import re
from collections.abc import Iterator

from hyperpod_dpd.derive.mirror import is_public
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-DATA-017",
    severity=Severity.ERROR,
    title="an engine's image that is mirrored has a tag or a digest",
    sources=("OCI distribution specification: a copy is made of a tag or a digest",),
)
def mirrored_images_have_a_version(deployment: Deployment) -> Iterator[Problem]:
    """Without one the copy would be of whatever `latest` is on that day, under a name that nobody can tell apart."""
    image = deployment.serving.engine.image
    if image is None or not deployment.platform.images.mirror_public_images or not is_public(image):
        return
    if not re.search(r"[:@][^/]+$", image):
        yield Problem(
            path="serving.engine.image",
            says="the image is to be mirrored and names no version",
            given=f"`image: {image}`",
            fix=f"write `{image}:TAG`, or the image by digest",
        )
