"""DPD-SRV-121: vLLM's share and the PD buffer fit into the GPU together."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.calibration import MEMORY
from hyperpod_dpd.derive import resolve_or_none
from hyperpod_dpd.physics import GIB, default_gpu_memory_utilization
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import ROLES, hands_over_through_lmcache
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-121",
    severity=Severity.ERROR,
    title="`gpu_memory_utilization` × HBM + PD buffer ≤ 0.97 × HBM",
    sources=("LMCache/LMCache issue 1251", "SageMaker DG DPD page (0.75 beside 8 GiB on 80 GB)"),
    facts=("L21",),
)
def share_and_buffer_fit(deployment: Deployment) -> Iterator[Problem]:
    """The PD buffer lies outside vLLM's share: together with it the GPU runs out of memory at the start."""
    facts = resolve_or_none(deployment)
    if facts is None or not hands_over_through_lmcache(deployment):
        return
    for role in ROLES:
        place = facts.role(role)
        memory = place.memory
        ceiling = MEMORY.ceiling * memory.hbm_bytes
        if memory.share_bytes + memory.pd_buffer_bytes <= ceiling:
            continue
        most = default_gpu_memory_utilization(place.instance.gpu, memory.pd_buffer_bytes)
        yield Problem(
            path=f"serving.{role.value}.gpu_memory_utilization",
            says=f"vLLM's share and the PD buffer of a {role.value} worker do not fit into the GPU",
            given=f"`gpu_memory_utilization: {memory.gpu_memory_utilization:g}`",
            computed=f"{memory.share_bytes / GIB:.1f} GiB + {memory.pd_buffer_bytes / GIB:.1f} GiB = "
            f"{(memory.share_bytes + memory.pd_buffer_bytes) / GIB:.1f} GiB",
            limit=f"{ceiling / GIB:.1f} GiB: {MEMORY.ceiling:.0%} of {memory.hbm_bytes / GIB:.1f} GiB of "
            f"`{place.instance.name}`",
            fix=f"remove it: {most:.2f} is computed then" if most > 0 else "lower `pd_buffer_gib`",
        )
