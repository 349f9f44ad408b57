"""DPD-LINT-004: no object is given twice."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-004",
    severity=Severity.WARNING,
    title="every object is given once",
    sources=("Kubernetes: the object that is applied last wins",),
)
def objects_are_given_once(manifests: ManifestSet) -> Iterator[Fault]:
    """Of two objects with one name only the last applied exists, and the other was checked for nothing."""
    seen: dict[tuple[str, str, str], Node] = {}
    for each in manifests.objects:
        key = (each.kind, each.namespace, each.name)
        if each.kind == "Kustomization" or each.name == "?":
            continue
        if key in seen:
            yield fault(
                each.node,
                says=f"{each.title} is given twice",
                given=f"here and in {seen[key].file}:{seen[key].line}",
                fix="lint one profile or overlay at a time",
            )
        seen.setdefault(key, each.node)
