"""DPD-LINT-001: what is not understood is said."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-001",
    severity=Severity.WARNING,
    title="every document, kind and GPU program in the manifests is understood",
    sources=("this project: a check that passes over what it does not know says less than it seems to",),
)
def everything_is_understood(manifests: ManifestSet) -> Iterator[Fault]:
    """What is not understood was not checked: a clean report would be read as more than it is."""
    yield from manifests.unknown
