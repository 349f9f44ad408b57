"""DPD-SRV-003: weights and one sequence fit into vLLM's share."""

from collections.abc import Iterator

from hyperpod_dpd.derive import resolve_or_none
from hyperpod_dpd.physics import GIB
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-003",
    severity=Severity.ERROR,
    title="weights, reserve and one sequence of full length fit into vLLM's share of the GPU",
    sources=(
        "llm-d-planner 0.3.3 memory constants (vLLM 0.19 on H100)",
        "SageMaker DG DPD page (utilization 0.75)",
    ),
)
def weights_and_a_sequence_fit(deployment: Deployment) -> Iterator[Problem]:
    """VLLM exits at start-up when not even one sequence of full length has room beside the weights."""
    facts = resolve_or_none(deployment)
    if facts is None:
        return
    for role in ROLES:
        place = facts.role(role)
        memory = place.memory
        if memory.holds_a_sequence:
            continue
        needed = memory.weights_bytes + memory.reserve_bytes + memory.sequence_bytes
        yield Problem(
            path=f"serving.{role.value}",
            says=f"a {role.value} worker does not fit on `{place.instance.name}`",
            given=f"`tensor_parallel: {facts.tensor_parallel}`, `weights: {deployment.model.weights}`, "
            f"`max_model_len_tokens: {facts.max_model_len_tokens}`",
            computed=f"weights {memory.weights_bytes / GIB:.1f} GiB + reserve {memory.reserve_bytes / GIB:.1f} GiB + "
            f"one {memory.sequence_tokens:,}-token sequence {memory.sequence_bytes / GIB:.1f} GiB = "
            f"{needed / GIB:.1f} GiB per GPU",
            limit=f"{max(memory.share_bytes, 0) / GIB:.1f} GiB: {memory.gpu_memory_utilization:.2f} of "
            f"{memory.hbm_bytes / GIB:.1f} GiB, beside a PD buffer of {memory.pd_buffer_bytes / GIB:.1f} GiB",
            fix="raise `tensor_parallel`, store `weights: fp8`, or lower `max_model_len_tokens` or `pd_buffer_gib`",
        )
