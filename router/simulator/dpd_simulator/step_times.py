"""How long an engine step takes: the interface, a constant default and a table read from JSON."""

import bisect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """What one engine step computes.

    Attributes:
        prefill_tokens: prompt tokens computed in this step, over all sequences.
        prefill_context_tokens: pairs of a token computed and a token that was in the KV cache before the step.
        prefill_pairs: pairs of a token computed and a token that it attends to: those in the KV cache, those of its
            prompt before it in this step, itself. Prompts of one step do not attend to each other.
        decode_sequences: sequences that get one more output token from a decode row.
        decode_context_tokens: KV cache tokens that the decode rows attend to, over all sequences.
    """

    prefill_tokens: int = 0
    prefill_context_tokens: int = 0
    prefill_pairs: int = 0
    decode_sequences: int = 0
    decode_context_tokens: int = 0


@runtime_checkable
class StepTimes(Protocol):
    """Durations of what an engine does, in seconds. Injected by the planner, by a table, or constant."""

    def step_seconds(self, shape: StepShape) -> float:
        """Duration of one forward pass with sampling."""
        ...

    def store_seconds(self, tokens: int) -> float:
        """Duration of the sender's copy of `tokens` into its PD buffer; part of the forward pass."""
        ...

    def transfer_seconds(self, tokens: int) -> float:
        """Duration of the write of `tokens` of one rank from the sender's to the receiver's buffer."""
        ...

    def retrieve_seconds(self, tokens: int) -> float:
        """Duration of the receiver's copy of `tokens` into the KV cache; part of the forward pass."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantStepTimes:
    """Prefill linear in the tokens, decode constant. All zero by default: steps take no simulated time.

    Attributes:
        prefill_seconds_per_token: cost of one prompt token.
        decode_step_seconds: cost of a step that has at least one decode row.
        store_seconds_per_token: cost of the sender's copy.
        transfer_seconds_per_token: cost of the write between the buffers.
        retrieve_seconds_per_token: cost of the receiver's copy.
    """

    prefill_seconds_per_token: float = 0.0
    decode_step_seconds: float = 0.0
    store_seconds_per_token: float = 0.0
    transfer_seconds_per_token: float = 0.0
    retrieve_seconds_per_token: float = 0.0

    def step_seconds(self, shape: StepShape) -> float:
        """See `StepTimes`."""
        decode = self.decode_step_seconds if shape.decode_sequences else 0.0
        return shape.prefill_tokens * self.prefill_seconds_per_token + decode

    def store_seconds(self, tokens: int) -> float:
        """See `StepTimes`."""
        return tokens * self.store_seconds_per_token

    def transfer_seconds(self, tokens: int) -> float:
        """See `StepTimes`."""
        return tokens * self.transfer_seconds_per_token

    def retrieve_seconds(self, tokens: int) -> float:
        """See `StepTimes`."""
        return tokens * self.retrieve_seconds_per_token


@dataclass(frozen=True, slots=True, kw_only=True)
class TabulatedStepTimes:
    """Interpolated tables, for example written by the planner for one instance type.

    A step with prefill and decode rows costs the prefill plus what the decode rows add to an otherwise empty step:
    the weights are read once (`decode(batch, context) - decode(1, 0)`).

    Attributes:
        prefill_points: (prompt tokens of a step, seconds), ascending, at least one.
        decode_batches: batch sizes of the rows of `decode_seconds`, ascending.
        decode_contexts: mean context tokens per sequence of the columns, ascending.
        decode_seconds: seconds of a decode step, one row per batch size.
        prefill_seconds_per_context_token: what one prompt token pays for one token already in the cache.
        store_seconds_per_token: cost of the sender's copy.
        transfer_seconds_per_token: cost of the write between the buffers.
        retrieve_seconds_per_token: cost of the receiver's copy.
    """

    prefill_points: tuple[tuple[float, float], ...]
    decode_batches: tuple[float, ...]
    decode_contexts: tuple[float, ...]
    decode_seconds: tuple[tuple[float, ...], ...]
    prefill_seconds_per_context_token: float = 0.0
    store_seconds_per_token: float = 0.0
    transfer_seconds_per_token: float = 0.0
    retrieve_seconds_per_token: float = 0.0

    @classmethod
    def from_json(cls, path: Path) -> "TabulatedStepTimes":
        """Read the attributes of this class from a JSON object.

        Raises:
            ValueError: the file is not such an object.
        """
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                prefill_points=tuple((float(x), float(y)) for x, y in raw["prefill_points"]),
                decode_batches=tuple(float(x) for x in raw["decode_batches"]),
                decode_contexts=tuple(float(x) for x in raw["decode_contexts"]),
                decode_seconds=tuple(tuple(float(x) for x in row) for row in raw["decode_seconds"]),
                **{
                    name: float(raw.get(name, 0.0))
                    for name in (
                        "prefill_seconds_per_context_token",
                        "store_seconds_per_token",
                        "transfer_seconds_per_token",
                        "retrieve_seconds_per_token",
                    )
                },
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"`{path}` is not a table of step times: {error!r}") from error

    def step_seconds(self, shape: StepShape) -> float:
        """See `StepTimes`."""
        prefill = 0.0
        if shape.prefill_tokens:
            xs = [point[0] for point in self.prefill_points]
            ys = [point[1] for point in self.prefill_points]
            prefill = _interpolate(xs, ys, shape.prefill_tokens)
            prefill += shape.prefill_context_tokens * self.prefill_seconds_per_context_token
        if not shape.decode_sequences:
            return prefill
        decode = self._decode(shape.decode_sequences, shape.decode_context_tokens / shape.decode_sequences)
        return prefill + decode - self._decode(1, 0) if prefill else decode

    def _decode(self, batch: float, context: float) -> float:
        column = [_interpolate(self.decode_contexts, row, context) for row in self.decode_seconds]
        return _interpolate(self.decode_batches, column, batch)

    def store_seconds(self, tokens: int) -> float:
        """See `StepTimes`."""
        return tokens * self.store_seconds_per_token

    def transfer_seconds(self, tokens: int) -> float:
        """See `StepTimes`."""
        return tokens * self.transfer_seconds_per_token

    def retrieve_seconds(self, tokens: int) -> float:
        """See `StepTimes`."""
        return tokens * self.retrieve_seconds_per_token


def _interpolate(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Piecewise linear; the last segment's slope continues beyond the table, the first value holds before it."""
    if len(xs) == 1 or x <= xs[0]:
        return ys[0]
    right = min(max(bisect.bisect_left(xs, x), 1), len(xs) - 1)
    left = right - 1
    slope = (ys[right] - ys[left]) / (xs[right] - xs[left])
    return ys[left] + slope * (x - xs[left])
