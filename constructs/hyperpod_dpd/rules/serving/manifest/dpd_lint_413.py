"""DPD-LINT-413: the operator supports the instance."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.operator import REFERENCE
from hyperpod_dpd.lint.model import Fault, ManifestSet, fault, listed
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-413",
    severity=Severity.ERROR,
    title="`instanceType` is one on which the operator disaggregates",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (allow-list)",),
    facts=("R9",),
)
def operator_supports_the_instance(manifests: ManifestSet) -> Iterator[Fault]:
    """On other instance types there is no EFA that carries the cache."""
    for each in manifests.operator_endpoints:
        if each.node.get("spec", "pdSpec") is None:
            continue
        several = each.node.get("spec", "instanceTypes")
        single = each.node.get("spec", "instanceType")
        for node in (*(() if single is None else (single,)), *(() if several is None else several.items)):
            if node.text not in REFERENCE.instance_types:
                yield fault(
                    node,
                    says="the operator does not disaggregate on this instance type",
                    given=f"`{node.shown()}`",
                    limit=listed(REFERENCE.instance_types),
                    fix="use one of them",
                )
