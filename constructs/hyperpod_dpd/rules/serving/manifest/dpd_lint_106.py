"""DPD-LINT-106: the buffer's size is a number of bytes."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-106",
    severity=Severity.ERROR,
    title="`pd_buffer_size` is a whole number of bytes and holds one chunk at least",
    sources=(
        "LMCache/LMCache issue 1990",
        "LMCache 0.4.3 and 0.5.6 configuration loader, run (`4Gi` and `1e9` become nothing)",
    ),
    facts=("L6",),
)
def buffer_is_a_number(manifests: ManifestSet) -> Iterator[Fault]:
    """LMCache reads anything but a whole number as nothing at all, and ends at an assertion."""
    for worker in manifests.handing_over:
        size = worker.lmcache.get("pd_buffer_size")
        if size is None or not worker.through_lmcache:
            continue
        if size.number is None or size.number <= 0:
            yield fault(
                size,
                says=f"the PD buffer of {worker} has no size that LMCache reads",
                given=f"`pd_buffer_size: {size.shown()}`",
                limit="a whole number of bytes",
                fix="write the bytes out, such as `8589934592` for 8 GiB",
            )
        elif worker.buffer is not None and worker.buffer.chunks == 0:
            yield fault(
                size,
                says=f"the PD buffer of {worker} is smaller than one chunk",
                given=f"`pd_buffer_size: {size.number}`",
                limit=f"{worker.buffer.chunk_bytes:,} bytes per chunk of {worker.chunk_tokens} tokens",
                fix="give the buffer GiB, not MiB",
            )
