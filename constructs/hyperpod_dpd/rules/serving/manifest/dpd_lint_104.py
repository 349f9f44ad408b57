"""DPD-LINT-104: the longest prompt fits into the PD buffer."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-104",
    severity=Severity.ERROR,
    title="the PD buffer of both roles holds the chunks of the longest prompt",
    sources=("LMCache/LMCache issue 4209",),
    facts=("L4",),
)
def longest_prompt_fits(manifests: ManifestSet) -> Iterator[Fault]:
    """A prompt larger than the whole buffer waits for the allocation timeout, or for ever, and is never handed over."""
    for worker in manifests.handing_over:
        buffer, longest = worker.buffer, worker.max_model_len_tokens
        if not worker.through_lmcache or buffer is None or longest is None or buffer.chunks == 0:
            continue
        needed = buffer.chunks_for(longest)
        if buffer.chunks < needed:
            yield fault(
                worker.at("pd_buffer_size"),
                says=f"the PD buffer of {worker} is smaller than one prompt of full length",
                given=f"`pd_buffer_size: {buffer.requested_bytes}`, `--max-model-len {longest}`",
                computed=f"{buffer.chunks:,} chunks of {buffer.chunk_bytes:,} bytes per rank, {needed:,} needed",
                limit=f"{needed * buffer.chunk_bytes:,} bytes",
                fix=f"set `pd_buffer_size: {needed * buffer.chunk_bytes}` or more, or lower `--max-model-len` to "
                f"{buffer.longest_prompt_tokens}",
            )
