"""DPD-LINT-216: decoders load what was handed over."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.words import FALSE
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec import Role

_SECOND_RUNNER_SINCE: Final = (0, 25)


@manifest_rule(
    "DPD-LINT-216",
    severity=Severity.ERROR,
    title="`VLLM_USE_V2_MODEL_RUNNER` is 0 on decoders with LMCache's connector and vLLM 0.25 or newer",
    sources=("measured on one H200, vLLM 0.25.1 with LMCache 0.5.3, 2026-11-30",),
    facts=("H14",),
)
def decoders_load_what_they_hit(manifests: ManifestSet) -> Iterator[Fault]:
    """The second model runner, the default since 0.25, skips LMCache's load in full CUDA graphs: the hit is reported, and the answer comes from unwritten memory."""
    for worker in manifests.handing_over:
        if worker.operator or worker.role is not Role.DECODE or not worker.through_lmcache:
            continue
        if (
            worker.engine.vllm_version < _SECOND_RUNNER_SINCE
            or worker.arguments.last("--enforce-eager") is not None
        ):
            continue
        given = worker.environment.get("VLLM_USE_V2_MODEL_RUNNER")
        if given is None or (given.value is not None and given.value not in FALSE):
            yield fault(
                worker.variable_at("VLLM_USE_V2_MODEL_RUNNER"),
                says=f"{worker} skips the load of what was handed over",
                given="nothing" if given is None else f"`VLLM_USE_V2_MODEL_RUNNER: {given.value}`",
                limit=f'"0" with {worker.engine.says("vllm")}',
                fix='set `VLLM_USE_V2_MODEL_RUNNER: "0"`',
            )
