"""What an engine asks of a KV connector, and the connector of an engine that has none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dpd_simulator.sequence import EngineSequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What a connector knows of a prompt.

    Attributes:
        external_tokens: tokens beyond the local ones that it can bring.
        asynchronous: it brings them between the steps, and the sequence waits for that.
    """

    external_tokens: int = 0
    asynchronous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a connector brought.

    Attributes:
        tokens: tokens copied into the KV cache.
        intact: False if the bytes were never written, so that the model reads garbage.
    """

    tokens: int = 0
    intact: bool = True


class Connector(Protocol):
    """Life of a prompt's KV cache outside the engine."""

    async def start(self) -> None:
        """Open sockets."""
        ...

    async def close(self) -> None:
        """Close sockets and end tasks."""
        ...

    def lookup(self, sequence: EngineSequence, *, local_tokens: int) -> Lookup:
        """Ask for a prompt that is about to be scheduled for the first time; changes nothing."""
        ...

    def load(self, sequence: EngineSequence, *, local_tokens: int, external_tokens: int) -> Loaded:
        """Copy what `lookup` promised into the KV cache, in the sequence's first step."""
        ...

    async def load_remote(self, sequence: EngineSequence) -> Loaded:
        """Bring what `lookup` promised asynchronously.

        Raises:
            GenerationError: it cannot be brought and the engine is configured to fail then.
        """
        ...

    async def save(self, sequences: Sequence[EngineSequence]) -> int:
        """After a step on a producer: store what was computed. Returns the tokens copied in the forward pass.

        Raises:
            EngineCrash: the worker process dies of it.
        """
        ...

    def finished(self, sequence: EngineSequence) -> dict[str, Any] | None:
        """`kv_transfer_params` of the answer, when a sequence ends by itself."""
        ...

    def aborted(self, sequence: EngineSequence) -> None:
        """A sequence ended because nobody waits for it."""
        ...

    def state(self) -> Mapping[str, Any]:
        """Numbers for the admin route and for tests."""
        ...


class EngineCrash(Exception):  # noqa: N818 - an event of the simulation, not an error of this program
    """Something inside the engine raised where nothing catches it: the engine is dead."""


class NoConnector:
    """A colocated engine: nothing comes from outside."""

    async def start(self) -> None:
        """See `Connector`."""

    async def close(self) -> None:
        """See `Connector`."""

    def lookup(self, sequence: EngineSequence, *, local_tokens: int) -> Lookup:
        """See `Connector`."""
        del sequence, local_tokens
        return Lookup()

    def load(self, sequence: EngineSequence, *, local_tokens: int, external_tokens: int) -> Loaded:
        """See `Connector`."""
        del sequence, local_tokens, external_tokens
        return Loaded()

    async def load_remote(self, sequence: EngineSequence) -> Loaded:
        """See `Connector`."""
        del sequence
        return Loaded()

    async def save(self, sequences: Sequence[EngineSequence]) -> int:
        """See `Connector`."""
        del sequences
        return 0

    def finished(self, sequence: EngineSequence) -> dict[str, Any] | None:
        """See `Connector`."""
        del sequence
        return None

    def aborted(self, sequence: EngineSequence) -> None:
        """See `Connector`."""
        del sequence

    def state(self) -> Mapping[str, Any]:
        """See `Connector`."""
        return {}
