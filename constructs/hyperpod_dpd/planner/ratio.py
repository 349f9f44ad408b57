"""Prefillers per decoder: the ratio at which neither waits for the other, by arithmetic alone."""

from dataclasses import dataclass

from hyperpod_dpd.planner.step import StepModel

PREFILL_UTILIZATION = 0.8
"""Share of the time that prefillers should work at most; above it their queue sets the time to first token."""

_LARGEST_BATCH = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """What one worker of each role serves."""

    prefill_requests_per_second: float
    """Prompts that one prefiller computes and stores."""

    decode_batch: int
    """Largest batch whose time per token keeps the promise."""

    decode_requests_per_second: float
    """Answers that one decoder finishes with that batch; 0 when not even one sequence is fast enough."""

    @property
    def prefillers_per_decoder(self) -> float:
        """Prefillers that feed one decoder without a queue."""
        return self.decode_requests_per_second / self.prefill_requests_per_second

    def requests_per_second(self, prefillers: int, decoders: int) -> float:
        """Return about what a shape serves; for ranking shapes, not for printing."""
        return min(prefillers * self.prefill_requests_per_second, decoders * self.decode_requests_per_second)


def balance(
    prefill: StepModel,
    decode: StepModel,
    *,
    input_tokens: int,
    output_tokens: int,
    prefill_budget: int,
    tpot_seconds: float,
    kv_tokens: int,
) -> Balance:
    """Return what one prefiller and one decoder serve.

    Args:
        prefill: step times of a prefiller.
        decode: step times of a decoder.
        input_tokens: typical prompt.
        output_tokens: typical answer.
        prefill_budget: token budget of a prefiller's step.
        tpot_seconds: promised time per output token.
        kv_tokens: KV cache of a decoder in tokens.
    """
    seconds = prefill.prefill_seconds(input_tokens, prefill_budget) + prefill.store_seconds(input_tokens)
    answer_steps = max(1, output_tokens - 1)
    context = input_tokens + output_tokens // 2
    retrieve = decode.retrieve_seconds(input_tokens)

    def rate(batch: int) -> float:
        # each admission adds the copy of its prompt to one step
        return batch / (answer_steps * decode.decode_step_seconds(batch, context) + batch * retrieve)

    def tpot(batch: int) -> float:
        return batch / (rate(batch) * answer_steps)

    fits = min(_LARGEST_BATCH, kv_tokens // (input_tokens + output_tokens))
    low, high = 0, fits
    while low < high:
        middle = (low + high + 1) // 2
        if tpot(middle) <= tpot_seconds:
            low = middle
        else:
            high = middle - 1
    return Balance(
        prefill_requests_per_second=1 / seconds,
        decode_batch=low,
        decode_requests_per_second=rate(low) if low else 0.0,
    )
