"""DPD-LINT-412: the operator has one decoder."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-412",
    severity=Severity.ERROR,
    title="`decodingSpec.replicas` is 1",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (one decode deployment)",),
    facts=("R9",),
)
def operator_has_one_decoder(manifests: ManifestSet) -> Iterator[Fault]:
    """The schema accepts more, but the operator's router knows one decoder."""
    for each in manifests.operator_endpoints:
        replicas = each.node.get("spec", "pdSpec", "decodingSpec", "replicas")
        if replicas is not None and replicas.number != 1:
            yield fault(
                replicas,
                says="the operator serves through exactly one decoder",
                given=f"`replicas: {replicas.shown()}`",
                limit="1",
                fix="set `replicas: 1`, or deploy self-managed",
            )
