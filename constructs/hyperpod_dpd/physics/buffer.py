"""The PD buffer: pinned GPU memory through which LMCache hands the KV cache over, one per rank."""

from hyperpod_dpd.catalog.models import ModelGeometry
from hyperpod_dpd.physics.kv import kv_bytes_per_token_per_rank
from hyperpod_dpd.physics.precision import Precision
from hyperpod_dpd.spec.value import record


def chunk_bytes_per_rank(
    geometry: ModelGeometry, kv_cache: Precision, tensor_parallel: int, chunk_tokens: int
) -> int:
    """Return the bytes of one LMCache chunk on one rank."""
    return chunk_tokens * kv_bytes_per_token_per_rank(geometry, kv_cache, tensor_parallel)


def worst_case_in_flight_bytes(max_num_seqs: int, sequence_tokens: int, kv_bytes_per_token: int) -> int:
    """Return what every sequence of an engine at full length would occupy in a PD buffer of one rank.

    AWS's reference values exceed it (16 × 16,384 × 40 KiB = 10 GiB > 8 GiB), so a violation is a warning with the
    number, never a refusal.
    """
    return max_num_seqs * sequence_tokens * kv_bytes_per_token


@record
class PdBuffer:
    """A PD buffer of one rank in whole chunks. LMCache rounds down and says nothing."""

    requested_bytes: int
    """Size as configured."""

    chunk_tokens: int
    """Tokens per chunk."""

    chunk_bytes: int
    """Bytes per chunk on one rank."""

    @property
    def chunks(self) -> int:
        """Whole chunks that the buffer holds; 0 is a buffer that LMCache refuses."""
        return self.requested_bytes // self.chunk_bytes

    @property
    def usable_bytes(self) -> int:
        """Bytes after rounding down to whole chunks: the `pd_buffer_size` to configure."""
        return self.chunks * self.chunk_bytes

    @property
    def rounded_off_bytes(self) -> int:
        """Bytes that the rounding takes away."""
        return self.requested_bytes - self.usable_bytes

    @property
    def longest_prompt_tokens(self) -> int:
        """Longest prompt that the empty buffer holds."""
        return self.chunks * self.chunk_tokens

    def chunks_for(self, prompt_tokens: int) -> int:
        """Return the chunks that a prompt of `prompt_tokens` occupies; a partial last chunk takes a whole one."""
        return -(-prompt_tokens // self.chunk_tokens)

    def bytes_for(self, prompt_tokens: int) -> int:
        """Return the bytes that a prompt of `prompt_tokens` occupies on one rank."""
        return self.chunks_for(prompt_tokens) * self.chunk_bytes

    def transfers(self, prompt_tokens: int) -> int:
        """Return how many prompts of `prompt_tokens` the buffer holds at once.

        Raises:
            ValueError: `prompt_tokens` is not positive.
        """
        if prompt_tokens < 1:
            raise ValueError(f"a prompt has at least one token, given {prompt_tokens}")
        return self.chunks // self.chunks_for(prompt_tokens)
