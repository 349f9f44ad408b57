"""DPD-LINT-203: no Service speaks for the engine's variables."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.words import is_false
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule

_READ: Final = frozenset(
    {"VLLM_PORT", "VLLM_DP_MASTER_PORT", "VLLM_NIXL_SIDE_CHANNEL_PORT", "VLLM_NIXL_SIDE_CHANNEL_HOST"}
)
"""Variables of vLLM whose names a Service can make."""


@manifest_rule(
    "DPD-LINT-203",
    severity=Severity.ERROR,
    title="no Service's name makes a variable that an engine reads",
    sources=("vllm-project/vllm issue 34199, PR 18209",),
    facts=("V3",),
)
def services_are_not_variables(manifests: ManifestSet) -> Iterator[Fault]:
    """Kubernetes gives pods variables for every Service: one called `vllm` sets `VLLM_PORT` to `tcp://…`, and vLLM crashes."""
    for worker in manifests.workers:
        if worker.pod is None or is_false(worker.pod.node.get("enableServiceLinks")):
            continue
        for service in manifests.of_kind("Service"):
            prefix = service.name.upper().replace("-", "_")
            made = {f"{prefix}_PORT", f"{prefix}_HOST"} & _READ
            if (
                made
                and service.namespace == worker.owner.namespace
                and service.node.text_at("spec", "clusterIP") != "None"
            ):
                yield fault(
                    service.node.get("metadata", "name") or service.node,
                    says=f"{service.title} sets a variable that vLLM reads in {worker}",
                    given=f"`name: {service.name}`",
                    computed=f"`{min(made)}=tcp://…`",
                    fix="set `enableServiceLinks: false` in the pod, or rename the Service",
                )
