"""DPD-LINT-407: the threshold can be reached."""

from collections.abc import Iterator

from hyperpod_dpd.lint.command import count
from hyperpod_dpd.lint.model import Endpoint, Fault, ManifestSet, Worker, fault
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-407",
    severity=Severity.WARNING,
    title="the threshold lies below the longest prompt",
    sources=("this project: the longest prompt is `--max-model-len`",),
)
def threshold_can_be_reached(manifests: ManifestSet) -> Iterator[Fault]:
    """Above it nothing is ever disaggregated, and the prefill workers stand idle."""
    for endpoint in manifests.endpoints:
        for worker in endpoint.prefill:
            longest = worker.max_model_len_tokens
            node = _threshold(endpoint, worker)
            if node is not None and longest is not None and (node.number or 0) >= longest:
                yield fault(
                    node,
                    says="no prompt is long enough to be disaggregated",
                    given=f"{node.number} tokens",
                    limit=f"`--max-model-len {longest}` of `{worker.owner.name}`",
                    fix="lower the threshold",
                )


def _threshold(endpoint: Endpoint, worker: Worker) -> Node | None:
    if worker.operator:
        return worker.owner.node.get("spec", "pdSpec", "routingThreshold")
    for router in endpoint.routers:
        given = router.arguments.last("--threshold", "--routing-threshold")
        if given is not None and given.value is not None:
            return given.node.replaced(count(given.value.text))
    return None
