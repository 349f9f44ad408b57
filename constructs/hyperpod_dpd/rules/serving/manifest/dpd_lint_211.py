"""DPD-LINT-211: UCX is left alone."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-211",
    severity=Severity.ERROR,
    title="`UCX_TLS` is not set for several hosts",
    sources=("LMCache examples (`UCX_TLS=cuda_ipc,…` is for one host)", "vllm-project/vllm issue 22532"),
    facts=("V11",),
)
def ucx_is_left_alone(manifests: ManifestSet) -> Iterator[Fault]:
    """`UCX_TLS` of the single-host examples leaves no transport between hosts."""
    for worker in manifests.handing_over:
        given = worker.environment.get("UCX_TLS")
        if given is not None:
            yield fault(
                given.node,
                says=f"{worker} is left without RDMA between hosts",
                given=f"`UCX_TLS: {given.value}`",
                fix="remove it, and let `LIBFABRIC` carry the cache",
            )
