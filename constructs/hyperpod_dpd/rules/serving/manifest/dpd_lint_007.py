"""DPD-LINT-007: a configuration that LMCache can read."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-007",
    severity=Severity.ERROR,
    title="LMCache's configuration in a ConfigMap is YAML",
    sources=("LMCache configuration loader, run",),
)
def configuration_is_yaml(manifests: ManifestSet) -> Iterator[Fault]:
    """To Kubernetes it is a text like any other: only the engine notices, and ends at its start."""
    yield from manifests.broken
