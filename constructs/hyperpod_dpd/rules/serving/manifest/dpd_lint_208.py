"""DPD-LINT-208: vLLM and LMCache were run together."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.engines import engines
from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-208",
    severity=Severity.WARNING,
    title="the versions that the image tells are a triple of the catalog",
    sources=("vllm-project/vllm issues 35799 (NIXL 0.10.0) and 27055 (NIXL 0.6.1 fails on EFA)",),
    facts=("V8",),
)
def versions_are_tested(manifests: ManifestSet) -> Iterator[Fault]:
    """Patch releases have broken the hand-off before; only a triple that was run is known to work."""
    for worker in manifests.handing_over:
        told = worker.engine.told
        rows = [
            row
            for row in engines()
            if all(getattr(row, part) == getattr(worker.engine, part) for part in told)
        ]
        if told and not rows:
            yield fault(
                worker.image or worker.node,
                says=f"the version of {worker} was not run by this project",
                given=f"`{worker.image.text if worker.image is not None else ''}`",
                limit="; ".join(f"vLLM {row.vllm} with LMCache {row.lmcache}" for row in engines()),
                fix="use a tested image, or measure the hand-off before you rely on it",
            )
