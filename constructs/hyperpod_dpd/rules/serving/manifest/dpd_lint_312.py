"""DPD-LINT-312: huge pages are asked for where they are used."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.words import FALSE
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule

_PAGES: Final = "hugepages-2Mi"


@manifest_rule(
    "DPD-LINT-312",
    severity=Severity.ERROR,
    title="`FI_EFA_USE_HUGE_PAGE: 1` goes with `hugepages-2Mi` in requests and limits",
    sources=("Dynamo EFA guide", "awslabs/awsome-distributed-ai"),
    facts=("E12",),
)
def huge_pages_are_asked_for(manifests: ManifestSet) -> Iterator[Fault]:
    """Without reserved pages `fork` ends with ENOMEM."""
    for worker in manifests.handing_over:
        given = worker.environment.get("FI_EFA_USE_HUGE_PAGE")
        if given is None or given.value is None or given.value in FALSE:
            continue
        limit, request = worker.quantity("limits", _PAGES), worker.quantity("requests", _PAGES)
        if limit is None or (request is not None and request.text != limit.text):
            yield fault(
                given.node,
                says=f"{worker} uses huge pages that it does not ask for",
                given=f"`FI_EFA_USE_HUGE_PAGE: {given.value}`",
                limit=f"`{_PAGES}` in requests and limits, equal",
                fix=f'add `{_PAGES}: 5120Mi` to both, or set `FI_EFA_USE_HUGE_PAGE: "0"`',
            )
