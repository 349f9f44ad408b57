"""DPD-LINT-202: the side channel is the pod's address."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule

_POD_ADDRESS: Final = frozenset({"$(POD_IP)"})


@manifest_rule(
    "DPD-LINT-202",
    severity=Severity.ERROR,
    title="`VLLM_NIXL_SIDE_CHANNEL_HOST` is the pod's address",
    sources=("vllm-project/vllm issue 27083", "volcano-sh/kthena PR 1781, issue 503"),
    facts=("V2",),
)
def side_channel_is_the_pod(manifests: ManifestSet) -> Iterator[Fault]:
    """It is advertised to the other side: with `localhost` or `0.0.0.0` the decoder connects to itself."""
    for worker in manifests.handing_over:
        if not worker.through_nixl or worker.operator:
            continue
        given = worker.environment.get("VLLM_NIXL_SIDE_CHANNEL_HOST")
        if given is not None and given.value is None and given.field in {None, "status.podIP"}:
            continue  # the pod's address, or what only a script or a secret knows
        if given is None or (given.value or "") not in _POD_ADDRESS:
            yield fault(
                worker.variable_at("VLLM_NIXL_SIDE_CHANNEL_HOST"),
                says=f"{worker} tells others an address at which it is not",
                given="nothing, which means `localhost`"
                if given is None
                else f"`{given.value or given.field}`",
                limit="`status.podIP`",
                fix="take it from the field `status.podIP`",
            )
