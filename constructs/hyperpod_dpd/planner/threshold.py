"""The routing threshold: from which prompt length on a hand-over is worth it, and why."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hyperpod_dpd.planner.ratio import PREFILL_UTILIZATION
from hyperpod_dpd.planner.step import StepModel
from hyperpod_dpd.planner.workload import LengthSource
from hyperpod_dpd.rules.serving.dpd_srv_008 import ESTIMATE_ERROR

_STEP_TOKENS = 16
_ROUND_TO_TOKENS = 256
_SAMPLES = 500

TOKENS_MARGIN = 0.10
"""Counted prompts still differ from nominal ones by the chat template and by what a benchmark calls a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdAdvice:
    """What the threshold should be."""

    configured_tokens: int | None
    """None: `never`."""

    break_even_tokens: int | None
    """Prompts from here on finish sooner, summed over everybody, when they are handed over. None: none does."""

    gap_tokens: int | None
    """Shortest prompt whose local prefill makes others wait longer than promised. None: the token budget prevents it."""

    capacity_tokens: int | None
    """Length from which on the prefillers have time for every prompt. None: they have time for all."""

    recommended_tokens: int
    reason: str
    """What set the recommended value."""

    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdInputs:
    """What the advice is computed from."""

    decode: StepModel
    prefill: StepModel
    decode_budget: int
    prefill_budget: int
    active_sequences: float
    """Sequences that one decoder decodes at a time."""

    hop_seconds: float
    """What a second pass through router and API server takes."""

    gap_seconds: float
    """Longest gap between two tokens that is promised."""

    requests_per_second: float
    prefillers: int
    longest_tokens: int
    typical_tokens: int
    lengths: LengthSource
    configured_tokens: int | None
    estimated: bool
    """The router divides characters by four instead of counting."""


def advise(inputs: ThresholdInputs) -> ThresholdAdvice:
    """Return the recommended threshold: the largest of break-even, promised gap and prefill capacity."""
    break_even = break_even_tokens(inputs)
    gap = gap_tokens(inputs)
    cap = _capacity_tokens(inputs, at_least=max(break_even or 0, gap or 0))
    warnings = []
    if break_even is None:
        recommended, reason = inputs.longest_tokens + 1, "no prompt gains from a hand-over: serve colocated"
    else:
        candidates = {
            f"break-even: from {break_even:,} tokens on a hand-over costs less than it spares others": break_even,
        }
        if gap is not None:
            candidates[
                f"a local prefill of {gap:,} tokens makes others wait {inputs.gap_seconds * 1e3:.0f} ms, as promised"
            ] = gap
        if cap is not None:
            candidates[f"above {cap:,} tokens the prefillers stay below {PREFILL_UTILIZATION:.0%}"] = cap
        reason, recommended = max(candidates.items(), key=lambda pair: pair[1])
        recommended = -(-recommended // _ROUND_TO_TOKENS) * _ROUND_TO_TOKENS
        recommended, moved = _off_the_typical_prompt(recommended, break_even, inputs)
        if moved:
            reason += "; moved off the typical prompt"
    busy = _prefill_utilization(inputs, inputs.configured_tokens)
    if busy > PREFILL_UTILIZATION:
        warnings.append(
            f"prefillers are {min(busy, 1):.0%} busy at the given threshold, so their queue sets the time to first "
            "token. help: add prefillers"
        )
    if inputs.configured_tokens and sits_on(
        inputs.typical_tokens, inputs.configured_tokens, inputs.estimated
    ):
        warnings.append(
            f"the typical prompt of {inputs.typical_tokens:,} tokens sits on the threshold of "
            f"{inputs.configured_tokens:,}: which path it takes is decided by the chat template. "
            f"help: set `routing.threshold_tokens: {recommended}`"
        )
    return ThresholdAdvice(
        configured_tokens=inputs.configured_tokens,
        break_even_tokens=break_even,
        gap_tokens=gap,
        capacity_tokens=cap,
        recommended_tokens=recommended,
        reason=reason,
        warnings=tuple(warnings),
    )


def sits_on(tokens: int, threshold_tokens: int, estimated: bool) -> bool:  # noqa: FBT001
    """Return whether prompts of `tokens` fall on either side of `threshold_tokens` by chance."""
    margin = ESTIMATE_ERROR if estimated else TOKENS_MARGIN
    return abs(tokens - threshold_tokens) <= margin * threshold_tokens


def break_even_tokens(inputs: ThresholdInputs) -> int | None:
    """Return the shortest prompt that is better handed over, or None.

    Locally it holds up every active sequence for its prefill, less the step that they would have had anyway.
    Handed over it costs a second hop and the wire for itself, and the copy into the decoder for the others.
    """
    active = max(1.0, inputs.active_sequences)
    step = inputs.decode.decode_step_seconds(round(active), inputs.typical_tokens)

    def gains(tokens: int) -> bool:
        spared = inputs.decode.prefill_seconds(tokens, inputs.decode_budget) - step
        spared -= inputs.decode.retrieve_seconds(tokens)
        return active * spared > inputs.hop_seconds + inputs.decode.transfer_seconds(tokens)

    return _first(gains, inputs.longest_tokens)


def gap_tokens(inputs: ThresholdInputs) -> int | None:
    """Return the longest prompt whose largest step still keeps the promised gap, or None where none breaks it."""
    active = max(1, round(inputs.active_sequences))
    context = active * inputs.typical_tokens * inputs.decode.seconds_per_cached_token
    most = max(1, min(inputs.decode_budget - active, inputs.longest_tokens))

    def breaks(tokens: int) -> bool:
        pairs = tokens * (tokens + 1) / 2
        seconds = inputs.decode.mixed_seconds(tokens, pairs, active, active + 1) + context
        return seconds > inputs.gap_seconds

    first = _first(breaks, most)
    return None if first is None else max(1, first - _STEP_TOKENS)


def _first(holds: Callable[[int], bool], most: int) -> int | None:
    """Return the smallest multiple of 16 for which `holds`, which must stay true from there on."""
    low, high = 1, -(-most // _STEP_TOKENS)
    if not holds(high * _STEP_TOKENS):
        return None
    while low < high:
        middle = (low + high) // 2
        if holds(middle * _STEP_TOKENS):
            high = middle
        else:
            low = middle + 1
    return low * _STEP_TOKENS


def _off_the_typical_prompt(recommended: int, break_even: int, inputs: ThresholdInputs) -> tuple[int, bool]:
    typical = inputs.typical_tokens
    if not sits_on(typical, recommended, inputs.estimated):
        return recommended, False
    margin = ESTIMATE_ERROR if inputs.estimated else TOKENS_MARGIN
    below = int(typical * (1 - 2 * margin)) // _ROUND_TO_TOKENS * _ROUND_TO_TOKENS
    if below >= break_even:
        return below, True
    return -(-int(typical * (1 + 2 * margin)) // _ROUND_TO_TOKENS) * _ROUND_TO_TOKENS, True


def _drawn(inputs: ThresholdInputs) -> Sequence[int]:
    source = random.Random(0)  # noqa: S311
    return sorted(inputs.lengths.draw(source).input_tokens for _ in range(_SAMPLES))


def _prefill_utilization(inputs: ThresholdInputs, threshold_tokens: int | None) -> float:
    if threshold_tokens is None or not inputs.prefillers:
        return 0.0
    seconds = sum(
        inputs.prefill.prefill_seconds(tokens, inputs.prefill_budget) + inputs.prefill.store_seconds(tokens)
        for tokens in _drawn(inputs)
        if tokens >= threshold_tokens
    )
    return inputs.requests_per_second * seconds / _SAMPLES / inputs.prefillers


def _capacity_tokens(inputs: ThresholdInputs, at_least: int) -> int | None:
    """Return the length above which prefillers have time, if that is more than `at_least` and leaves prompts to route."""
    if _prefill_utilization(inputs, at_least) <= PREFILL_UTILIZATION:
        return None
    lengths = sorted(set(_drawn(inputs)))
    for tokens in lengths:
        if tokens > at_least and _prefill_utilization(inputs, tokens) <= PREFILL_UTILIZATION:
            return tokens
    return None
