"""What vLLM takes when an argument is absent, on the GPUs of the catalog."""

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record


@record
class VllmDefaults:
    """Defaults of `vllm serve` on a GPU with at least 70 GiB that is not an A100."""

    max_num_batched_tokens: int
    max_num_seqs: int
    block_size_tokens: int
    source: Source


VLLM_DEFAULTS = VllmDefaults(
    max_num_batched_tokens=8192,
    max_num_seqs=1024,
    block_size_tokens=16,
    source=Source(
        text="vLLM EngineArgs, usage context API server; 0.19 and 0.25 agree (older releases: 256 sequences)",
        as_of="2026-11-30",
    ),
)
