"""DPD-LINT-121: share and buffer fit into the GPU."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.calibration import MEMORY
from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.physics import GIB, default_gpu_memory_utilization
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-121",
    severity=Severity.ERROR,
    title="`--gpu-memory-utilization` × HBM + PD buffer ≤ 0.97 × HBM",
    sources=("LMCache/LMCache issue 1251", "SageMaker DG DPD page (0.75 beside 8 GiB on 80 GB)"),
    facts=("L21",),
)
def share_and_buffer_fit(manifests: ManifestSet) -> Iterator[Fault]:
    """The PD buffer lies outside vLLM's share: together with it the GPU runs out of memory at the start."""
    for worker in manifests.handing_over:
        size = worker.lmcache.get("pd_buffer_size")
        if not worker.through_lmcache or worker.instance is None or size is None or size.number is None:
            continue
        share = worker.gpu_memory_utilization
        if share is None:
            continue  # DPD-LINT-214 has spoken
        default = worker.arguments.last("--gpu-memory-utilization") is None
        gpu = worker.instance.gpu
        hbm_bytes = gpu.hbm_gib * GIB
        ceiling = MEMORY.ceiling * hbm_bytes
        if share * hbm_bytes + size.number > ceiling:
            most = default_gpu_memory_utilization(gpu, size.number)
            yield fault(
                worker.argument_at("--gpu-memory-utilization"),
                says=f"vLLM's share and the PD buffer of {worker} do not fit into the GPU",
                given=f"`--gpu-memory-utilization {share:g}`{', the default' if default else ''}, "
                f"`pd_buffer_size: {size.number}`",
                computed=f"{share * gpu.hbm_gib:.1f} GiB + {size.number / GIB:.1f} GiB = "
                f"{share * gpu.hbm_gib + size.number / GIB:.1f} GiB",
                limit=f"{ceiling / GIB:.1f} GiB: {MEMORY.ceiling:.0%} of {gpu.hbm_gib:.1f} GiB of `{worker.instance.name}`",
                fix=f"set `--gpu-memory-utilization {most:.2f}`" if most > 0 else "lower `pd_buffer_size`",
            )
