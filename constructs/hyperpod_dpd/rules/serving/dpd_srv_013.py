"""DPD-SRV-013: vLLM's KV block has a size that the attention kernel takes."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

_KERNEL_BLOCK_TOKENS: Final = 16


@deployment_rule(
    "DPD-SRV-013",
    severity=Severity.ERROR,
    title="`block_size_tokens` is a multiple of 16",
    sources=("vLLM 0.19.0 and 0.25.1, FlashAttention backend: `get_supported_kernel_block_sizes`",),
)
def block_size_has_a_kernel(deployment: Deployment) -> Iterator[Problem]:
    """FlashAttention, which Hopper GPUs use, has no kernel for another block, and the engine ends at its start."""
    block = deployment.serving.transfer.block_size_tokens
    if block is not None and block % _KERNEL_BLOCK_TOKENS:
        yield Problem(
            path="serving.transfer.block_size_tokens",
            says="a block size that the attention kernel does not have",
            given=f"`block_size_tokens: {block}`",
            limit=f"multiples of {_KERNEL_BLOCK_TOKENS}",
            fix="remove it, or use 16, 32 or 64",
        )
