"""One request through an idle system: where its time goes."""

from dataclasses import dataclass

from hyperpod_dpd.planner.system import Frontend, HandOff, HandOffFlow


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One part of a request's time."""

    lane: str
    """Who works: `router`, `prefill`, `wire`, `decode`."""

    what: str
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A request from its first byte to its last token."""

    spans: tuple[Span, ...]
    first_token_seconds: float
    last_token_seconds: float


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.spans: list[Span] = []

    def spend(self, lane: str, what: str, seconds: float) -> None:
        if seconds > 0:
            self.spans.append(
                Span(lane=lane, what=what, start_seconds=self.now, end_seconds=self.now + seconds)
            )
            self.now += seconds


def colocated_timeline(
    frontend: Frontend, *, input_tokens: int, prefill_seconds: float, decode_seconds: float
) -> Timeline:
    """Return a request that one worker serves alone.

    Args:
        frontend: router and API server.
        input_tokens: prompt.
        prefill_seconds: computing the prompt.
        decode_seconds: all tokens after the first.
    """
    clock = _Clock()
    clock.spend("router", "router", frontend.router_seconds)
    clock.spend("decode", "API server", _api_seconds(frontend, input_tokens))
    clock.spend("decode", "prefill", prefill_seconds)
    first = clock.now
    clock.spend("decode", "decode", decode_seconds)
    return Timeline(spans=tuple(clock.spans), first_token_seconds=first, last_token_seconds=clock.now)


def disaggregated_timeline(
    frontend: Frontend,
    hand_off: HandOff,
    *,
    input_tokens: int,
    prefill_seconds: float,
    decode_seconds: float,
    recompute_seconds: float,
) -> Timeline:
    """Return a request that is handed over.

    Args:
        frontend: router and API servers.
        hand_off: what moving the prompt costs.
        input_tokens: prompt.
        prefill_seconds: computing the prompt on the prefiller.
        decode_seconds: all tokens after the first.
        recompute_seconds: the step in which the decoder computes what was not handed over.
    """
    clock = _Clock()
    clock.spend("router", "router", frontend.router_seconds)
    clock.spend("prefill", "API server", _api_seconds(frontend, input_tokens))
    clock.spend("prefill", "prefill", prefill_seconds)
    clock.spend("prefill", "copy to PD buffer", input_tokens * hand_off.store_seconds_per_token)
    first = clock.now + frontend.router_seconds
    clock.spend(
        "wire",
        "transfer over EFA",
        hand_off.transfer_fixed_seconds + input_tokens * hand_off.transfer_seconds_per_token,
    )
    clock.spend("router", "notification", frontend.router_seconds)
    clock.spend("decode", "API server", _api_seconds(frontend, input_tokens))
    clock.spend("decode", "copy from PD buffer", input_tokens * hand_off.retrieve_seconds_per_token)
    clock.spend("decode", "rest of the prompt", recompute_seconds)
    if hand_off.flow is HandOffFlow.LAND:
        clock.spend("router", "landed", frontend.router_seconds)
        clock.spend("decode", "API server", _api_seconds(frontend, input_tokens))
        clock.spend("decode", "last block", recompute_seconds)
    if hand_off.flow is not HandOffFlow.CONTINUE:
        first = clock.now
    clock.spend("decode", "decode", decode_seconds)
    return Timeline(spans=tuple(clock.spans), first_token_seconds=first, last_token_seconds=clock.now)


def _api_seconds(frontend: Frontend, input_tokens: int) -> float:
    return frontend.request_seconds + input_tokens * frontend.request_seconds_per_token
