"""DPD-LINT-205: vLLM knows every argument."""

from collections.abc import Iterator

from hyperpod_dpd.lint.flags import known_flags
from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.rules.serving.dpd_srv_205 import REMOVED_FLAGS
from hyperpod_dpd.spec.violation import close_to


@manifest_rule(
    "DPD-LINT-205",
    severity=Severity.ERROR,
    title="every flag is one of vLLM's version",
    sources=("vLLM 0.19.0 and 0.25.1 `vllm serve` parser, run",),
    facts=("V5",),
)
def flags_are_known(manifests: ManifestSet) -> Iterator[Fault]:
    """VLLM exits with code 2 on a flag that it does not know, and the pod crashes in a loop."""
    for worker in manifests.workers:
        known = known_flags(worker.engine)
        for argument in worker.arguments.flags:
            if argument.flag in REMOVED_FLAGS:
                yield fault(
                    argument.node,
                    says=f"vLLM has removed `{argument.flag}`",
                    given=f"`{argument.text}`",
                    fix=REMOVED_FLAGS[argument.flag],
                )
            elif known is not None and argument.flag not in known:
                yield fault(
                    argument.node,
                    says=f"{worker.engine.says('vllm')} has no flag `{argument.flag}`",
                    given=f"`{argument.text}`",
                    fix=close_to(argument.flag, sorted(known)) or "remove it",
                )
