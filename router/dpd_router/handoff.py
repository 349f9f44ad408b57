"""A hand-off and its states: the router owns it until the decoder has let go of its chunks."""

import asyncio
import dataclasses
import enum
import hashlib
import secrets
from collections.abc import Sequence
from typing import Final

import msgspec

from dpd_router.generation import Json
from dpd_router.pool import Worker

# LMCache isolates the keys of a request by tags of this prefix; a tag value must not contain `@`,
# which its key format uses as separator
TAG: Final = "lmcache.tag.dpd"


class State(enum.StrEnum):
    """States of a hand-off.

    ```
    reserved ─► prefilling ─► landed ─► consumed | drained | lost
        └────────────┴─► released         prefilling ─► drained | lost
    ```
    """

    RESERVED = "reserved"
    PREFILLING = "prefilling"
    LANDED = "landed"
    CONSUMED = "consumed"
    DRAINED = "drained"
    LOST = "lost"
    RELEASED = "released"


NEXT: Final = {
    State.RESERVED: frozenset({State.PREFILLING, State.RELEASED}),
    State.PREFILLING: frozenset({State.LANDED, State.RELEASED, State.DRAINED, State.LOST}),
    State.LANDED: frozenset({State.CONSUMED, State.DRAINED, State.LOST}),
    State.CONSUMED: frozenset[State](),
    State.DRAINED: frozenset[State](),
    State.LOST: frozenset[State](),
    State.RELEASED: frozenset[State](),
}
FINAL: Final = frozenset(state for state, following in NEXT.items() if not following)


class IllegalTransitionError(Exception):
    """A hand-off was moved where it cannot go: a defect of the router."""


def new_id() -> str:
    """Return a hand-off's id: hexadecimal, not guessable, because it is also its tag."""
    return secrets.token_hex(16)


@dataclasses.dataclass(slots=True, eq=False)
class Handoff:
    """One prompt on its way from a prefiller to a decoder.

    Attributes:
        id: id of the notifications and value of the tag.
        decoder_incarnation: process of the decoder that holds the chunks.
        ids: the prompt's token ids.
        salt: cache salt of every request that takes the cache.
        chunks: chunks of one rank that are reserved.
        notified: set when every rank has written its part.
        settled: set with a final state.
        first_token: id of the token that the prefill gave, once known.
    """

    id: str
    model: str | None
    prefiller: Worker
    decoder: Worker
    decoder_incarnation: int
    ids: Sequence[int]
    salt: str
    chunks: int
    notified: asyncio.Event
    settled: asyncio.Event
    state: State = State.RESERVED
    first_token: int | None = None

    def advance(self, state: State) -> None:
        """Go to the next state.

        Raises:
            IllegalTransitionError: there is no such transition.
        """
        if state not in NEXT[self.state]:
            raise IllegalTransitionError(f"hand-off `{self.id}`: {self.state} -> {state}")
        self.state = state
        if state in FINAL:
            self.settled.set()

    @property
    def open(self) -> bool:
        """Whether the router still owns chunks of it."""
        return self.state not in FINAL

    async def notified_or_settled(self, timeout_seconds: float) -> None:
        """Wait until every rank has written its part, a final state is there, or the time is over."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self.notified, self.settled)]
        try:
            await asyncio.wait(waits, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    @property
    def tag(self) -> Json:
        """The transfer parameter that makes this hand-off's cache visible to a request."""
        return {TAG: self.id}

    @property
    def consuming_prompt(self) -> list[int]:
        """The prompt that makes the decoder take all chunks: n + 1 tokens, of which it looks up n.

        A decoder with `skip_last_n_tokens: 1` looks up one token less than it gets, and the last
        chunk of n tokens only matches a lookup of n.
        """
        last = self.first_token if self.first_token is not None else self.ids[-1]
        return [*self.ids, last]

    def consuming_request(self, prompt: list[int] | msgspec.Raw) -> Json:
        """The completion of one token with which the decoder takes the cache, for `consuming_prompt`."""
        body: Json = {
            "prompt": prompt,
            "max_tokens": 1,
            "temperature": 0,
            "stream": False,
            "cache_salt": self.salt,
            "kv_transfer_params": self.tag,
        }
        if self.model is not None:
            body["model"] = self.model
        return body


def salt_for(handoff_id: str, client_salt: str | None) -> str:
    """Return a cache salt of one hand-off alone, bound to the client's own.

    The decoder's prefix cache then holds nothing that this prompt could match before its hand-off
    is retrieved: chunks of a prefix that vLLM has already are received and never freed.
    """
    return hashlib.sha256(f"{handoff_id}\0{client_salt or ''}".encode()).hexdigest()


def receiver_ports(base: int, ranks: int, epoch: int, epochs: int) -> list[int]:
    """Return the ports of a decoder's ranks: `base + ranks x (epoch mod epochs) + rank`."""
    first = base + ranks * (epoch % epochs)
    return list(range(first, first + ranks))
