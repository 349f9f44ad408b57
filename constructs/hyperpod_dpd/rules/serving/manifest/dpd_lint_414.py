"""DPD-LINT-414: the operator ignores nothing."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.operator import ROLE_KEYS
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-414",
    severity=Severity.WARNING,
    title="`worker.resources` is not relied upon beside `pdSpec`",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (`worker.resources` is ignored)",),
    facts=("R10",),
)
def operator_reads_the_resources(manifests: ManifestSet) -> Iterator[Fault]:
    """The schema demands it, and the pods of both roles take `prefillSpec.resources` and `decodingSpec.resources` instead."""
    for each in manifests.operator_endpoints:
        own = each.node.get("spec", "worker", "resources")
        if each.node.get("spec", "pdSpec") is None or own is None:
            continue
        for kind in ("requests", "limits"):
            for resource, value in (own.get(kind) or own).pairs.items() if own.get(kind) is not None else ():
                roles = [
                    each.node.get("spec", "pdSpec", key, "resources", kind, resource)
                    for key in ROLE_KEYS.values()
                ]
                if any(role is None or role.text != value.text for role in roles):
                    yield fault(
                        value,
                        says=f"the operator ignores `{resource}` of `worker.resources` beside `pdSpec`",
                        given=f"`{resource}: {value.shown()}`",
                        fix="say it in `resources` of `prefillSpec` and `decodingSpec`",
                    )
