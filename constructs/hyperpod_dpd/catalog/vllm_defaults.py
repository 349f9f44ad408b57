"""What vLLM takes when an argument is absent, on the GPUs of the catalog."""

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record


@record
class VllmDefaults:
    """Defaults of `vllm serve` on a GPU with at least 70 GiB that is not an A100."""

    max_num_batched_tokens: int
    max_num_seqs: int
    block_size_tokens: int
    max_graph_tokens: int
    """The largest step for which a CUDA graph is captured."""

    source: Source

    def graph_tokens(self, *, max_num_seqs: int, max_num_batched_tokens: int, eager: bool = False) -> int:
        """Return the tokens of the largest step that runs as a CUDA graph; 0 for an eager engine, which has none."""
        return 0 if eager else min(2 * max_num_seqs, max_num_batched_tokens, self.max_graph_tokens)


VLLM_DEFAULTS = VllmDefaults(
    max_num_batched_tokens=8192,
    max_num_seqs=1024,
    block_size_tokens=16,
    max_graph_tokens=512,
    source=Source(
        text="vLLM EngineArgs, usage context API server; 0.19 and 0.25 agree (older releases: 256 sequences). Graphs: "
        "`max_cudagraph_capture_size` of CompilationConfig, 0.25.1",
        as_of="2026-11-30",
    ),
)
