"""DPD-LINT-006: something that serves a model was recognised."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-006",
    severity=Severity.WARNING,
    title="the manifests hold at least one engine",
    sources=("this project: a check of nothing finds nothing",),
)
def an_engine_is_there(manifests: ManifestSet) -> Iterator[Fault]:
    """A folder without an engine passes every other rule."""
    if not any(manifests.workers) and manifests.objects:
        first = manifests.objects[0].node
        yield fault(
            first,
            says="nothing in these manifests was recognised as an engine",
            given=f"{len(manifests.objects)} objects",
            fix="give the Deployments that run `vllm serve`, or an `InferenceEndpointConfig`",
        )
