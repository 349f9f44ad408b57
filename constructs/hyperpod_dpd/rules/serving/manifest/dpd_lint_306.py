"""DPD-LINT-306: both roles lie in one zone."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.placement import pinned_zone
from hyperpod_dpd.lint.words import is_false
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-306",
    severity=Severity.ERROR,
    title="prefill and decode are not placed in different availability zones",
    sources=("llm-d/llm-d PR 1554", "SageMaker DG sagemaker-hyperpod-model-deployment-dpd (`sameAZ`)"),
    facts=("E6",),
)
def zones_are_equal(manifests: ManifestSet) -> Iterator[Fault]:
    """EFA traffic does not leave its zone, so a prefiller in another zone never reaches the decoder."""
    for endpoint in manifests.endpoints:
        for prefill, decode in endpoint.pairs:
            ours = None if prefill.pod is None else pinned_zone(prefill.pod)
            theirs = None if decode.pod is None else pinned_zone(decode.pod)
            if ours is not None and theirs is not None and ours.text != theirs.text:
                yield fault(
                    theirs,
                    says="prefill and decode are placed in different zones",
                    given=f"`{ours.text}` and `{theirs.text}`",
                    fix="place both in the same zone",
                )
    for each in manifests.operator_endpoints:
        same = each.node.get("spec", "pdSpec", "topologySpec", "sameAZ")
        if is_false(same) and same is not None:
            yield fault(
                same,
                says="the operator may place prefill and decode in different zones",
                given="`sameAZ: false`",
                fix="remove it: true is the default",
            )
