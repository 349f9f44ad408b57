"""What is simulated: engines of one or two roles, and what lies between them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hyperpod_dpd.planner.engine import EngineLimits
from hyperpod_dpd.planner.step import StepTimes

ROUTER_BUFFER_WAIT_SECONDS: Final = 1.0
"""How long the router waits for room in a decoder's PD buffer before it decodes directly: its own default."""


class HandOffFlow(StrEnum):
    """How a hand-off is completed on the decoder."""

    CONTINUE = "continue"
    """The prefiller's first token goes to the client at once; the decoder goes on from there and computes nothing."""

    LAND = "land"
    """A request of one token makes the decoder retrieve; then it serves the client's from its prefix cache."""

    RECOMPUTE = "recompute"
    """The decoder loads whole units and computes the last one again; first token from the decoder (operator, nixl)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """One kind of engine."""

    times: StepTimes
    limits: EngineLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontend:
    """What a request pays before an engine or behind a router, in seconds."""

    request_seconds: float
    """API server of an engine, per request, one request after the other."""

    request_seconds_per_token: float
    router_seconds: float
    """One pass through the router."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOff:
    """What moving a prompt's KV cache costs."""

    flow: HandOffFlow
    store_seconds_per_token: float
    """Sender's copy, inside its steps."""

    transfer_fixed_seconds: float
    transfer_seconds_per_token: float
    """On the wire; one prompt of a prefiller after the other."""

    retrieve_seconds_per_token: float
    """Receiver's copy, inside the step that admits the request."""

    inline: bool
    """The sender's step lasts until the bytes are there (LMCache < 0.4.5)."""

    serial_seconds: float
    """What else blocks the prefiller per hand-off; 0 unless measured."""

    unit_tokens: int
    """What is loaded in one piece where the last piece is computed again: a chunk of LMCache, a block of vLLM."""

    chunk_tokens: int
    buffer_chunks: int
    """Chunks of a decoder's PD buffer, reserved for the whole prompt before its prefill starts."""

    held_by_next_step: bool = False
    """A busy prefiller without CUDA graphs: first token and bytes leave when its next step has ended.

    Launching that step keeps the process busy, the thread that transfers included. Two H200, 1,200 hand-offs: 40 ms
    from copy to retrieval behind an idle prefiller, 355 ms behind a busy one (docs/evidence/h200-two-gpus.md).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Colocated:
    """`workers` engines that do both phases, behind a router that spreads requests."""

    engine: EngineSpec
    workers: int
    frontend: Frontend


@dataclass(frozen=True, slots=True, kw_only=True)
class Disaggregated:
    """x prefillers and y decoders. Prompts below the threshold are computed by a decoder."""

    prefill: EngineSpec
    decode: EngineSpec
    prefillers: int
    decoders: int
    threshold_tokens: int
    """Prompts of at least this many tokens are handed over."""

    hand_off: HandOff
    frontend: Frontend
    buffer_wait_seconds: float = ROUTER_BUFFER_WAIT_SECONDS
    """A prompt that finds no room in a buffer for so long is computed by a decoder; infinite: it waits."""


System = Colocated | Disaggregated
