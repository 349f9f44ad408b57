"""DPD-DATA-015: images that are given are given by digest, and all of them."""

import re
from collections.abc import Iterator

from hyperpod_dpd.catalog.row import UnknownCatalogEntryError
from hyperpod_dpd.derive.images import PROJECT_IMAGES, images_run
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment, forms


@deployment_rule(
    "DPD-DATA-015",
    severity=Severity.ERROR,
    title="images that are given are by digest, and `source: given` gives every image that the deployment runs",
    sources=("OCI distribution specification: a tag moves, a digest does not", "OWASP LLM03 supply chain"),
)
def given_images_are_fixed(deployment: Deployment) -> Iterator[Problem]:
    """A tag moves between two pulls: prefill and decode would run different engines, and no KV cache is exchanged."""
    images = deployment.platform.images
    run = _run(deployment)
    for key in PROJECT_IMAGES:
        image: str | None = getattr(images, key)
        if image is None:
            if images.source == "given" and key in run:
                yield Problem(
                    path=f"platform.images.{key}",
                    says="the image is not given, and nothing builds it",
                    given=f"`source: given` without `{key}`",
                    fix=f"name the image by digest as `{key}`, or set `source: build`",
                )
        elif not re.fullmatch(forms.IMAGE_BY_DIGEST, image):
            yield Problem(
                path=f"platform.images.{key}",
                says="the image is not named by its digest",
                given=f"`{key}: {image}`",
                limit="`registry/name@sha256:` and 64 hexadecimal digits",
                fix=f"name the digest that `docker buildx imagetools inspect {image}` shows",
            )


def _run(deployment: Deployment) -> tuple[str, ...]:
    try:
        return images_run(deployment)
    except (UnknownCatalogEntryError, ValueError):
        return ()  # the rules about engines say so
