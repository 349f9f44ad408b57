"""DPD-LINT-002: references stay inside the set."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-002",
    severity=Severity.WARNING,
    title="every ConfigMap and file that an engine reads is among what was given",
    sources=("this project: LMCache's configuration decides whether anything is handed over",),
)
def references_are_given(manifests: ManifestSet) -> Iterator[Fault]:
    """Half of an engine's configuration lies in ConfigMaps: without them roles, ports and buffers are not known."""
    yield from manifests.unresolved
