"""Faults that a test or a rehearsal switches on in a running engine."""

import random
from dataclasses import dataclass, field
from enum import StrEnum


class FaultKind(StrEnum):
    """What goes wrong. The comment says which values of a `Fault` it reads."""

    REFUSE_CONNECTIONS = "refuse-connections"  # the HTTP port is closed until the fault is removed
    ERROR_STATUS = "error-status"  # status: generation requests are answered with it
    DELAY = "delay"  # seconds before a generation request is looked at
    HANG = "hang"  # the engine takes no further step until the fault is removed
    SLOW = "slow"  # factor on every step time
    DIE_ON_REQUEST = "die-on-request"  # the process ends when a generation request arrives
    DIE_AFTER_TOKENS = "die-after-tokens"  # tokens: ends when one sequence has that many output tokens
    ERROR_IN_STREAM = "error-in-stream"  # tokens: an error event inside a stream that began with 200
    TRANSFER_FAILED = "transfer-failed"  # the KV write fails; the answer is still 200, no notification
    NOTIFICATION_LOST = "notification-lost"
    NOTIFICATION_DUPLICATED = "notification-duplicated"
    NOTIFICATION_DELAYED = "notification-delayed"  # seconds
    NOTIFICATION_FLOOD = "notification-flood"  # count unknown notifications with each real one
    BUFFER_FULL = (
        "buffer-full"  # chunks of every rank are taken away while the fault is there (-1: all free ones)
    )
    KV_MISS = "kv-miss"  # a lookup in the PD buffer finds nothing
    RETRIEVAL_SKIPPED = (
        "retrieval-skipped"  # a hit is reported and never loaded: the KV cache is wrong, no chunk is freed
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        kind: what goes wrong.
        probability: chance per occasion.
        times: occasions after which it is over; None means until removed.
        seconds: a delay.
        tokens: output tokens before it strikes.
        factor: multiplier of step times.
        status: HTTP status.
        count: notifications of a flood.
        chunks: PD buffer chunks per rank.
        rank: only this tensor-parallel rank; None means every rank.
    """

    kind: FaultKind
    probability: float = 1.0
    times: int | None = None
    seconds: float = 0.0
    tokens: int = 0
    factor: float = 1.0
    status: int = 503
    count: int = 0
    chunks: int = -1
    rank: int | None = None


@dataclass(slots=True)
class _Active:
    fault: Fault
    left: int | None


@dataclass(slots=True, kw_only=True)
class FaultBoard:
    """The faults of one engine.

    Attributes:
        seed: of the generator behind `probability`.
    """

    seed: int = 0
    _generator: random.Random = field(init=False)
    _active: list[_Active] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._generator = random.Random(self.seed)  # noqa: S311 - reproducible faults, not secrets

    def add(self, fault: Fault) -> None:
        """Switch a fault on."""
        self._active.append(_Active(fault, fault.times))

    def remove(self, kind: FaultKind | None = None) -> None:
        """Switch off all faults of a kind, or all."""
        self._active = [active for active in self._active if kind is not None and active.fault.kind != kind]

    def active(self, kind: FaultKind) -> Fault | None:
        """The first fault of that kind, without counting an occasion."""
        return next((active.fault for active in self._active if active.fault.kind == kind), None)

    def strike(self, kind: FaultKind, *, rank: int | None = None) -> Fault | None:
        """One occasion for a fault of that kind: the fault if it strikes now, else None."""
        for active in self._active:
            fault = active.fault
            if fault.kind != kind or (rank is not None and fault.rank not in (None, rank)):
                continue
            if fault.probability < 1.0 and self._generator.random() >= fault.probability:
                continue
            if active.left is not None:
                active.left -= 1
                if active.left <= 0:
                    self._active.remove(active)
            return fault
        return None
