"""DPD-LINT-301: EFA is asked for."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import EFA, Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-301",
    severity=Severity.ERROR,
    title="a worker that hands over asks for `vpc.amazonaws.com/efa`, with requests equal to limits",
    sources=("aws/sagemaker-hyperpod-cli issue 306", "awslabs/ai-on-sagemaker-hyperpod PR 134"),
    facts=("E1",),
)
def efa_is_asked_for(manifests: ManifestSet) -> Iterator[Fault]:
    """Without the devices libfabric takes TCP, and nothing says so."""
    for worker in manifests.handing_over:
        if worker.operator:
            continue
        limit, request = worker.quantity("limits", EFA), worker.quantity("requests", EFA)
        provider = worker.environment.get("FI_PROVIDER")
        if not worker.efa_devices:
            yield fault(
                worker.resources or worker.node,
                says=f"{worker} has no EFA device",
                given=f"no `{EFA}`",
                fix=f"add `{EFA}` to requests and limits",
            )
        elif limit is None or (request is not None and request.number != limit.number):
            yield fault(
                limit or request or worker.node,
                says=f"EFA devices of {worker} are not requested as they are limited",
                given=f"requests {request.shown() if request else 'nothing'}, limits {limit.shown() if limit else 'nothing'}",
                fix="write the same number into both",
            )
        if provider is not None and provider.value is not None and provider.value != "efa":
            yield fault(
                provider.node,
                says=f"libfabric of {worker} does not use EFA",
                given=f"`FI_PROVIDER: {provider.value}`",
                limit="`efa`",
                fix="set `FI_PROVIDER: efa`",
            )
