"""DPD-LINT-311: the library path is what it says."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.rules.serving.dpd_srv_311 import replaces_library_path


@manifest_rule(
    "DPD-LINT-311",
    severity=Severity.ERROR,
    title="`LD_LIBRARY_PATH` refers to no other variable and contains EFA's libraries",
    sources=("ai-dynamo/dynamo PR 9521", "Kubernetes: only `$(VAR)` of the same list is expanded"),
    facts=("E11",),
)
def library_path_is_literal(manifests: ManifestSet) -> Iterator[Fault]:
    """The image's own value cannot be referred to: it would be replaced by the literal text, without EFA's path."""
    for worker in manifests.handing_over:
        given = worker.environment.get("LD_LIBRARY_PATH")
        if given is not None and given.value is not None and replaces_library_path(given.value):
            yield fault(
                given.node,
                says=f"the library path of the image of {worker} is replaced",
                given=f"`LD_LIBRARY_PATH: {given.value}`",
                limit="whole paths, `/opt/amazon/efa/lib` among them",
                fix="remove it: the image has the right value",
            )
