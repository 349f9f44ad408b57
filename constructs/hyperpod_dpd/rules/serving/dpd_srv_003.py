"""DPD-SRV-003: weights and one sequence fit into vLLM's share."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.instances import InstanceType
from hyperpod_dpd.derive import resolve_or_none
from hyperpod_dpd.physics import GIB, MemoryFit
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
    places = [facts.role(role) for role in ROLES]
    for place in places:
        if not place.memory.holds_a_sequence:
            worker = f"a {place.role.value} worker"
            yield _problem(deployment, f"serving.{place.role.value}", worker, place.instance, place.memory)
    # the baseline has a worker wherever the roles have one
    colocated = {place.instance.name: (place.instance, place.colocated_memory) for place in places}
    for instance, memory in colocated.values():
        if not memory.holds_a_sequence:
            yield _problem(
                deployment,
                "serving.baseline.gpu_memory_utilization",
                "a colocated worker of the baseline",
                instance,
                memory,
            )


def _problem(
    deployment: Deployment, path: str, worker: str, instance: InstanceType, memory: MemoryFit
) -> Problem:
    serving = deployment.serving
    needed = memory.weights_bytes + memory.reserve_bytes + memory.sequence_bytes
    beside = (
        f", beside a PD buffer of {memory.pd_buffer_bytes / GIB:.1f} GiB" if memory.pd_buffer_bytes else ""
    )
    lower = "`max_model_len_tokens` or `pd_buffer_gib`" if beside else "`max_model_len_tokens`"
    return Problem(
        path=path,
        says=f"{worker} does not fit on `{instance.name}`",
        given=f"`tensor_parallel: {serving.tensor_parallel}`, `weights: {deployment.model.weights}`, "
        f"`max_model_len_tokens: {serving.max_model_len_tokens}`, "
        f"`gpu_memory_utilization: {memory.gpu_memory_utilization:g}`",
        computed=f"weights {memory.weights_bytes / GIB:.1f} GiB + reserve {memory.reserve_bytes / GIB:.1f} GiB + "
        f"one {memory.sequence_tokens:,}-token sequence {memory.sequence_bytes / GIB:.1f} GiB = "
        f"{needed / GIB:.1f} GiB per GPU",
        limit=f"{max(memory.share_bytes, 0) / GIB:.1f} GiB: {memory.gpu_memory_utilization:g} of "
        f"{memory.hbm_bytes / GIB:.1f} GiB{beside}",
        fix=f"raise `gpu_memory_utilization` or `tensor_parallel`, store `weights: fp8`, or lower {lower}",
    )
