"""DPD-LINT-515: the router can measure every hand-off."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-515",
    severity=Severity.WARNING,
    title="decoders behind `dpd-router` have `--enable-prompt-tokens-details`",
    sources=("this project: a decoder that misses computes the prompt without a word",),
)
def hand_offs_are_measured(manifests: ManifestSet) -> Iterator[Fault]:
    """The router compares `cached_tokens` with the prompt; without the details a missed hand-off stays unseen."""
    for endpoint in manifests.endpoints:
        measured = any(router.kind == "dpd-router" for router in endpoint.routers)
        for worker in endpoint.decode:
            if measured and worker.arguments.last("--enable-prompt-tokens-details") is None:
                yield fault(
                    worker.node,
                    says=f"{worker} does not say how much of a prompt it had",
                    given="no `--enable-prompt-tokens-details`",
                    fix="add `--enable-prompt-tokens-details`",
                )
