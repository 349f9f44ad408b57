"""What the announcement of disaggregated serving on HyperPod shows, to stand beside what is measured."""

from collections.abc import Mapping
from typing import Final

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record


@record
class AnnouncedChange:
    """Change of disaggregated against colocated serving, in per cent, on one kind of GPU.

    One prefiller and one decoder on two nodes against one colocated worker on one node.
    """

    gpu: str
    tpot_percent: Mapping[int, float]
    """Time per output token, by concurrency."""
    e2e_p50_percent: tuple[float, float]
    """Smallest and largest change of the end-to-end latency; at which concurrency is not said."""
    output_throughput_percent: float
    """Largest change; at which concurrency is not said."""
    source: Source


_SOURCE: Final = Source(
    text="Lu, Cheng, Arora, Palod: LMCache on Amazon SageMaker HyperPod: Disaggregated Prefill and Decode; Llama 3.3 70B, "
    "D(4096,256), 50 requests per run",
    as_of="2026-11-30",
)

ANNOUNCED: Final = {
    row.gpu: row
    for row in (
        AnnouncedChange(
            gpu="H100",
            tpot_percent={8: -22, 64: -66},
            e2e_p50_percent=(-14, -32),
            output_throughput_percent=35,
            source=_SOURCE,
        ),
        AnnouncedChange(
            gpu="H200",
            tpot_percent={8: -28, 32: -48},
            e2e_p50_percent=(-29, -41),
            output_throughput_percent=64,
            source=_SOURCE,
        ),
    )
}
"""Published changes by name of the GPU."""
