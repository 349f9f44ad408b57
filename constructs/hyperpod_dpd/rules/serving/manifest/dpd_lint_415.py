"""DPD-LINT-415: the operator's image hands over."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.engines import engines
from hyperpod_dpd.lint.model import Fault, ManifestSet, fault, listed
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-415",
    severity=Severity.WARNING,
    title="the worker's image is one that AWS has run with `pdSpec`",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (two images)",),
)
def operator_image_is_known(manifests: ManifestSet) -> Iterator[Fault]:
    """The operator configures LMCache 0.4.3 of those images; another version may not understand it."""
    known = {row.image for row in engines() if "operator" in row.backends}
    for each in manifests.operator_endpoints:
        image = each.node.get("spec", "worker", "image")
        if each.node.get("spec", "pdSpec") is not None and image is not None and image.text not in known:
            yield fault(
                image,
                says="it is not known whether this image goes with `pdSpec`",
                given=f"`{image.shown()}`",
                limit=listed(sorted(name for name in known if name)),
                fix="use one of them, or a copy of it, and test the hand-off",
            )
